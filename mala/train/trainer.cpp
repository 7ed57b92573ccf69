// Steps, and between them reports, evaluations and checkpoints.
#include "mala/train/trainer.h"

#include <chrono>
#include <cmath>

#include "mala/core/output_file.h"
#include "mala/train/broken_layer.h"
#include "mala/train/checkpoint.h"
#include "mala/train/evaluation.h"
#include "mala/train/memory.h"
#include "mala/train/metrics_log.h"
#include "mala/train/step.h"

namespace mala::train {
namespace {

using Clock = std::chrono::steady_clock;
constexpr const char* kModelFile = "model.safetensors";

class Run {
 public:
  Run(const Job& job, Observer& observer, bool resume);

  Outcome to_the_end();

 private:
  void begin_or_resume(bool resume);
  void seek(int64_t step);
  void check_all_begin_at(int64_t step);
  void step();
  // Waits for the device and looks at the steps since the last time. True: all want to stop.
  bool look();
  void after_step(bool at_end);
  bool is_fatal(double loss, double broken);
  [[noreturn]] void stop_at(int64_t step, double loss);
  void report(double norm);
  void evaluate();
  void save();
  void pass_on_notices();
  double epochs_done() const;
  bool is_epoch_end() const { return done_ % steps_per_epoch() == 0; }
  int64_t steps_per_epoch() const { return stepper_.schedule().steps_per_epoch(); }
  bool is_due(int64_t every) const { return every > 0 && done_ % every == 0; }
  models::NamedTensors state();

  Job job_;
  Observer& observer_;
  Stepper stepper_;
  std::optional<Checkpoints> checkpoints_;
  std::optional<MetricsLog> log_;
  Progress progress_;
  std::string model_file_;
  bool has_begun_ = false;
  int64_t done_ = 0;
  std::vector<StepNumbers> pending_;  // not looked at yet
  double loss_sum_ = 0;               // since the last report
  int64_t loss_count_ = 0;
  Clock::time_point last_report_ = Clock::now();
  bool stops_ = false;
};

Run::Run(const Job& job, Observer& observer, bool resume)
    : job_(job),
      observer_(observer),
      stepper_(job.task, job.config, job.group, job.device),
      model_file_(job.config.run.out + "/" + kModelFile) {
  // Every process reads, the first alone writes.
  checkpoints_.emplace(job.config.run.out + "/checkpoints", job.config.run.keep);
  begin_or_resume(resume);
  if (job_.group.is_first()) log_.emplace(job.config.run.out, done_);
}

models::NamedTensors Run::state() {
  models::NamedTensors all;
  stepper_.visit_state([&](const std::string& name, torch::Tensor& tensor) {
    all.emplace_back(name, tensor.detach());
  });
  return all;
}

void Run::begin_or_resume(bool resume) {
  const std::string newest = checkpoints_->newest();
  check(resume || newest.empty(), "train", job_.config.run.out, " holds a run already (", newest,
        "); go on with --resume, or choose another run.out");
  progress_ = {.examples = stepper_.examples_per_step(), .recipe = job_.recipe};
  if (const auto found = resume ? checkpoints_->restore(state()) : std::nullopt) {
    check(found->examples == progress_.examples, "train", newest, " was made with ",
          found->examples, " examples a step, this run has ", progress_.examples,
          "; resume with as many: batch size x accumulate x processes");
    progress_.step = found->step;
    progress_.best = found->best;
    progress_.best_step = found->best_step;
    if (job_.group.is_first()) {
      if (found->recipe != job_.recipe)
        observer_.on_notice("the recipe differs from the checkpoint's");
      observer_.on_notice(str("going on from step ", found->step, ", ", newest));
    }
  }
  if (job_.group.is_first()) {
    checkpoints_->remove_parts();
    remove_parts(job_.config.run.out, kModelFile);
  }
  // Weights drawn anew are the same everywhere for the same seed; this makes sure of it.
  std::vector<torch::Tensor> tensors;
  for (auto& [name, tensor] : state()) tensors.push_back(tensor);
  job_.group.broadcast(tensors);
  check_all_begin_at(progress_.step);
  done_ = progress_.step;
}

void Run::check_all_begin_at(int64_t step) {
  const auto own = static_cast<double>(step);
  torch::Tensor sum = torch::full({1}, own, torch::dtype(torch::kFloat64).device(job_.device));
  job_.group.sum(sum);
  const double mean = sum.item<double>() / static_cast<double>(job_.group.world());
  check(mean == own, "train", "process ", job_.group.rank(), " begins at step ", step,
        " and others do not (", mean, " on average); all must see the same run.out (",
        job_.config.run.out, "): put it where every machine can read it");
}

double Run::epochs_done() const {
  return static_cast<double>(done_) / static_cast<double>(steps_per_epoch());
}

void Run::seek(int64_t step) {
  const int64_t within = step % steps_per_epoch();
  job_.task.seek({step / steps_per_epoch(), within * job_.config.optimizer.accumulate});
}

void Run::step() {
  if (is_epoch_end() || !has_begun_) seek(done_);
  has_begun_ = true;
  pending_.push_back(stepper_.run(done_));
  ++done_;
}

void Run::stop_at(int64_t step, double loss) {
  seek(step);
  const std::string layer =
      find_broken_layer(job_.task.model(), [&] { return stepper_.loss_of(step, 0); });
  const std::string newest = checkpoints_->newest();
  const std::string what =
      std::isfinite(loss) ? "a gradient is not finite" : str("the loss is ", loss);
  throw Error(str(
      "[train] step ", step, " (epoch ", step / steps_per_epoch(), "): ", what, "; ",
      layer.empty() ? "it was finite when the batch ran again" : "it first goes wrong at " + layer,
      "; try a lower optimizer.lr, a longer schedule.warmup_epochs,"
      " optimizer.clip_norm=1 or run.precision=float32; ",
      newest.empty() ? "there is no checkpoint yet" : "--resume goes on from " + newest));
}

// Overflow is normal where the loss has a scale, unless nothing is left of it.
bool Run::is_fatal(double loss, double broken) {
  if (!std::isfinite(loss)) return true;
  constexpr double kLostScale = 1e-4;
  return broken > 0 && (!stepper_.has_loss_scale() || stepper_.loss_scale() < kLostScale);
}

bool Run::look() {
  std::vector<torch::Tensor> parts;
  for (const StepNumbers& numbers : pending_) parts.push_back(numbers.loss);
  for (const StepNumbers& numbers : pending_) parts.push_back(numbers.is_broken);
  parts.push_back(torch::full({}, observer_.should_stop() ? 1.0 : 0.0, job_.device));
  // All processes see the same numbers, so that they stop together or go on together.
  torch::Tensor sums = torch::stack(parts).to(torch::kFloat64);
  job_.group.sum(sums);
  sums = sums.cpu();
  const auto* sum = sums.const_data_ptr<double>();
  for (size_t i = 0; i < pending_.size(); ++i) {
    const double loss = sum[i] / static_cast<double>(job_.group.world());
    if (is_fatal(loss, sum[pending_.size() + i])) stop_at(pending_[i].step, loss);
    loss_sum_ += loss;
    ++loss_count_;
  }
  const bool stops = sum[2 * pending_.size()] > 0;
  const bool is_last = done_ == stepper_.schedule().steps();
  if (is_due(job_.config.run.report_every) || is_last) {
    report(pending_.back().gradient_norm.item<double>());
  }
  pending_.clear();
  return stops;
}

void Run::report(double norm) {
  const int64_t steps = stepper_.schedule().steps();
  const double seconds = std::chrono::duration<double>(Clock::now() - last_report_).count();
  const auto count = static_cast<double>(std::max<int64_t>(loss_count_, 1));
  const double rate = count / std::max(seconds, 1e-9);
  const StepReport numbers{
      .step = done_,
      .steps = steps,
      .epoch = epochs_done(),
      .epochs = job_.config.schedule.epochs,
      .loss = loss_sum_ / count,
      .lr = stepper_.schedule().lr(done_ - 1),
      .gradient_norm = norm,
      .examples_per_second = rate * static_cast<double>(stepper_.examples_per_step()),
      .seconds_left = static_cast<double>(steps - done_) / rate};
  if (log_) {
    io::Scalars metrics{{"epoch", numbers.epoch},
                        {"loss", numbers.loss},
                        {"lr", numbers.lr},
                        {"gradient_norm", norm},
                        {"examples_per_second", numbers.examples_per_second}};
    if (job_.device.is_cuda()) {
      metrics.emplace_back("gpu_peak_gigabytes",
                           static_cast<double>(gpu_peak_bytes(job_.device)) * 1e-9);
    }
    log_->write("step", done_, metrics);
    observer_.on_step(numbers);
  }
  loss_sum_ = 0;
  loss_count_ = 0;
  last_report_ = Clock::now();
}

void Run::evaluate() {
  const Evaluation evaluation = evaluate_both(job_.task, stepper_.averaged(),
                                              {job_.config.run.precision, job_.device}, job_.group);
  stepper_.enter_training();
  if (evaluation.metrics.empty()) return;
  const bool is_best = !progress_.best || evaluation.is_better_than(*progress_.best);
  if (is_best) {
    progress_.best = evaluation.goal;
    progress_.best_step = done_;
  }
  if (!log_) return;
  log_->write("evaluation", done_, evaluation.metrics);
  observer_.on_evaluation({done_, epochs_done(), evaluation.metrics, is_best});
  if (is_best || job_.config.run.export_weights == "last") {
    export_weights(job_.task, evaluation.of_averaged ? stepper_.averaged() : nullptr, model_file_,
                   facts_of(evaluation, done_, job_.recipe));
  }
}

void Run::save() {
  progress_.step = done_;
  if (!job_.group.is_first()) return;
  const std::string path = checkpoints_->save(progress_, state());
  observer_.on_saved(path, done_);
}

void Run::pass_on_notices() {
  for (const std::string& notice : job_.task.take_notices()) observer_.on_notice(notice);
}

void Run::after_step(bool at_end) {
  const RunConfig& run = job_.config.run;
  const bool evaluates =
      at_end || (is_epoch_end() && is_due(run.evaluate_every * steps_per_epoch()));
  const bool saves = at_end || (run.save_every > 0 ? is_due(run.save_every) : is_epoch_end());
  // On a GPU nobody waits for a step but when its numbers are wanted.
  const bool looks = !job_.device.is_cuda() || is_due(run.report_every) || evaluates || saves ||
                     (job_.group.world() == 1 && observer_.should_stop());
  if (looks) stops_ = look();
  const Clock::time_point before = Clock::now();
  pass_on_notices();
  if (evaluates) evaluate();
  if (saves || stops_) save();
  last_report_ += Clock::now() - before;  // which is no time of steps
}

Outcome Run::to_the_end() {
  const int64_t steps = stepper_.schedule().steps();
  last_report_ = Clock::now();
  while (done_ < steps && !stops_) {
    step();
    after_step(done_ == steps);
  }
  const bool is_done = done_ == steps;
  if (is_done && !progress_.best && job_.group.is_first()) {
    export_weights(job_.task, stepper_.averaged(), model_file_, {{"recipe", job_.recipe}});
  }
  return {done_, is_done, progress_.best, progress_.best || is_done ? model_file_ : ""};
}

}  // namespace

Outcome train(const Job& job, Observer& observer, bool resume) {
  check_config(job.config);
  return Run(job, observer, resume).to_the_end();
}

}  // namespace mala::train
