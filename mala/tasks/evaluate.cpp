// Counts right and wrong answers.
#include "mala/tasks/evaluate.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <unordered_set>

#include "mala/core/source.h"
#include "mala/data/dataset/open.h"

namespace mala::tasks {
namespace {

constexpr int64_t kFew = 5;  // of top-5

std::vector<std::string> numbers(int64_t count) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < count; ++i) texts.push_back(std::to_string(i));
  return texts;
}

// Classes of the set that have no label of that name.
std::vector<std::string> unknown_classes(const data::ImageSource& source,
                                         const std::vector<std::string>& labels) {
  const std::unordered_set<std::string> known(labels.begin(), labels.end());
  std::vector<std::string> unknown;
  for (const std::string& name : source.classes()) {
    if (!known.contains(name)) unknown.push_back(name);
  }
  return unknown;
}

// Folders may be called as the labels are, or just come in the order of the classes, as ImageNet's
// synsets do.
std::unique_ptr<data::ImageSource> open_folders(const std::string& path,
                                                const Classifier& classifier) {
  auto source = data::open_images(path);
  const auto unknown = unknown_classes(*source, classifier.card().labels);
  if (unknown.empty()) return data::open_images(path, {.classes = classifier.card().labels});
  // Some names that are right and others that are not make no order to go by.
  const bool is_ordered = unknown.size() == source->classes().size() &&
                          std::ssize(source->classes()) == classifier.classes();
  Source{"evaluate", path}.check(
      is_ordered, "has ", source->classes().size(), " classes and the model ", classifier.classes(),
      "; ", in_quotes(unknown.front()),
      " is none of the model's labels, so which class it is cannot be told; give --labels");
  return source;
}

void count_answers(const data::ImageBatch& batch,
                   const std::vector<std::vector<Prediction>>& answers, Evaluation& result) {
  for (size_t i = 0; i < answers.size(); ++i) {
    const int64_t label = batch.labels[i];
    const auto is_right = [&](const Prediction& answer) { return answer.index == label; };
    result.confusion.add(label, answers[i].front().index);
    result.top1 += is_right(answers[i].front()) ? 1 : 0;
    result.top5 += std::ranges::any_of(answers[i], is_right) ? 1 : 0;
  }
  result.pictures += batch.count;
}

}  // namespace

int64_t Confusion::count(int64_t label) const {
  int64_t sum = 0;
  for (int64_t answer = 0; answer < classes_; ++answer) sum += count(label, answer);
  return sum;
}

int64_t Confusion::mistaken_for(int64_t label) const {
  int64_t best = -1;
  for (int64_t answer = 0; answer < classes_; ++answer) {
    if (answer == label || count(label, answer) == 0) continue;
    if (best < 0 || count(label, answer) > count(label, best)) best = answer;
  }
  return best;
}

std::unique_ptr<data::ImageSource> open_labelled(const std::string& path,
                                                 const Classifier& classifier) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return open_folders(path, classifier);
  const std::vector<std::string>& labels = classifier.card().labels;
  return data::open_images(path,
                           {.classes = labels.empty() ? numbers(classifier.classes()) : labels});
}

Evaluation evaluate(const Classifier& classifier, const data::ImageSource& source,
                    const data::BatchOptions& options,
                    const std::function<void(int64_t done)>& progress) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  Evaluation result{.confusion = Confusion(classifier.classes()), .skipped = {}};
  data::ImageBatches batches(source, options);
  while (const auto batch = batches.next()) {
    result.skipped.insert(result.skipped.end(), batch->skipped.begin(), batch->skipped.end());
    if (batch->count > 0) {
      count_answers(*batch, best_of(classifier.probabilities(*batch), kFew), result);
    }
    progress(result.pictures + std::ssize(result.skipped));
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

}  // namespace mala::tasks
