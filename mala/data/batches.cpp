// Worker threads that fill the places of the next batches, in order, a few batches ahead.
#include "mala/data/batches.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "mala/core/error.h"
#include "mala/data/batch_maker.h"

namespace mala::data {
namespace {

constexpr int64_t kMostWorkers = 1024;

int64_t count_workers(const BatchOptions& options) {
  check(options.workers >= 0 && options.workers <= kMostWorkers, "image_batches", "workers is ",
        options.workers, ", needs 0 (one a core) to ", kMostWorkers);
  if (options.workers > 0) return options.workers;
  return std::max<int64_t>(std::thread::hardware_concurrency(), 1);
}

// Small batches need more of them, or workers would have nothing to do.
int64_t count_ahead(const BatchOptions& options, int64_t workers) {
  check(options.ahead >= 1 && options.ahead <= 1000, "image_batches", "ahead is ", options.ahead,
        ", needs 1 to 1000");
  return std::max(options.ahead, 1 + (workers + options.batch_size - 1) / options.batch_size);
}

}  // namespace

class ImageBatches::Workshop {
 public:
  Workshop(const ImageSource& source, const BatchOptions& options)
      : maker_(source, options), next_number_(options.start_batch), given_(options.start_batch) {
    const int64_t workers = count_workers(options);
    ahead_ = count_ahead(options, workers);
    // Few locks for small pictures, and still something for everyone.
    places_at_once_ = std::clamp<int64_t>(options.batch_size / (4 * workers), 1, 16);
    for (int64_t i = 0; i < workers; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
    }
  }

  int64_t count() const { return maker_.order().batches(); }

  std::optional<ImageBatch> next() {
    if (given_ == count()) return std::nullopt;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return failure_ || (!jobs_.empty() && jobs_.front().is_ready); });
    if (failure_) std::rethrow_exception(failure_);
    std::optional<ImageBatch> batch = std::move(jobs_.front().open.batch);
    jobs_.pop_front();
    ++given_;
    changed_.notify_all();
    return batch;
  }

 private:
  struct Job {
    OpenBatch open;
    int64_t taken = 0, done = 0;  // places
    bool is_ready = false;
  };

  bool may_open() const {
    return std::ssize(jobs_) < ahead_ && next_number_ < maker_.order().batches();
  }

  Job* find_job() {
    const auto has_places = [](const Job& job) { return job.taken < job.open.batch.count; };
    const auto found = std::ranges::find_if(jobs_, has_places);
    return found == jobs_.end() ? nullptr : &*found;
  }

  // The lock is held on the way in and out.
  void work(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return !failure_ && (find_job() || may_open()); })) {
      try {
        work_once(lock, stop);
      } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        if (!failure_) failure_ = std::current_exception();
        changed_.notify_all();
      }
    }
  }

  void work_once(std::unique_lock<std::mutex>& lock, const std::stop_token& stop) {
    Job* job = find_job();
    if (!job) {
      job = &jobs_.emplace_back(Job{.open = maker_.open(next_number_)});
      ++next_number_;
      changed_.notify_all();  // there is work for the others
    }
    const int64_t first = job->taken;
    job->taken = std::min(first + places_at_once_, job->open.batch.count);
    const int64_t last = job->taken;
    lock.unlock();
    for (int64_t i = first; i < last && !stop.stop_requested(); ++i) maker_.fill(job->open, i);
    lock.lock();
    job->done += last - first;
    if (job->done < job->open.batch.count || stop.stop_requested()) return;
    lock.unlock();
    ImageBatch finished = maker_.finish(std::move(job->open));
    lock.lock();
    job->open.batch = std::move(finished);
    job->is_ready = true;
    changed_.notify_all();
  }

  BatchMaker maker_;
  int64_t ahead_ = 0, places_at_once_ = 1;
  int64_t next_number_;  // of the batch to be opened next
  int64_t given_;        // batches that next() has passed, those before the first included
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Job> jobs_;  // its ends move, and the jobs between stay where they are
  std::exception_ptr failure_;
  std::vector<std::jthread> threads_;  // last, so that they end before all else goes
};

ImageBatches::ImageBatches(const ImageSource& source, const BatchOptions& options)
    : workshop_(std::make_unique<Workshop>(source, options)) {}

ImageBatches::~ImageBatches() = default;

int64_t ImageBatches::count() const { return workshop_->count(); }

std::optional<ImageBatch> ImageBatches::next() { return workshop_->next(); }

}  // namespace mala::data
