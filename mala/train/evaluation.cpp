// Metrics as sums over processes.
#include "mala/train/evaluation.h"

#include "mala/core/error.h"
#include "mala/train/precision.h"

namespace mala::train {
namespace {

io::Scalars evaluate_once(tasks::TrainingTask& task, const EvaluationPlace& place,
                          const Group& group) {
  const torch::NoGradGuard no_gradients;
  task.model().eval();
  std::vector<tasks::Total> totals;
  {
    const Autocast autocast(place.device, place.precision);
    totals = task.evaluate(place.device);
  }
  torch::Tensor sums = torch::zeros({2, std::ssize(totals)}, torch::kFloat64);
  for (size_t i = 0; i < totals.size(); ++i) {
    sums[0][static_cast<int64_t>(i)] = totals[i].sum;
    sums[1][static_cast<int64_t>(i)] = totals[i].weight;
  }
  sums = sums.to(place.device);
  if (!totals.empty()) group.sum(sums);
  sums = sums.cpu();
  io::Scalars values;
  for (size_t i = 0; i < totals.size(); ++i) {
    const torch::Tensor column = sums.select(1, static_cast<int64_t>(i));
    check(column[1].item<double>() > 0, "train", "nothing of the evaluation set could be read, so",
          " there is no ", totals[i].name, "; look at the notices above and at data.evaluate");
    values.emplace_back(totals[i].name, column[0].item<double>() / column[1].item<double>());
  }
  return values;
}

}  // namespace

Evaluation evaluate_both(tasks::TrainingTask& task, AveragedWeights* averaged,
                         const EvaluationPlace& place, const Group& group) {
  Evaluation evaluation{.metrics = evaluate_once(task, place, group),
                        .more_is_better = task.more_is_better()};
  if (evaluation.metrics.empty()) return evaluation;
  evaluation.goal = evaluation.metrics.front().second;
  if (!averaged) return evaluation;
  averaged->swap();
  const io::Scalars others = evaluate_once(task, place, group);
  averaged->swap();
  const double goal = others.front().second;
  evaluation.of_averaged =
      evaluation.more_is_better ? goal > evaluation.goal : goal < evaluation.goal;
  if (evaluation.of_averaged) evaluation.goal = goal;
  for (const auto& [name, value] : others) evaluation.metrics.emplace_back("ema_" + name, value);
  return evaluation;
}

void export_weights(tasks::TrainingTask& task, AveragedWeights* averaged, const std::string& path,
                    const std::map<std::string, std::string>& facts) {
  if (averaged) averaged->swap();
  task.export_model(path, facts);
  if (averaged) averaged->swap();
}

std::map<std::string, std::string> facts_of(const Evaluation& evaluation, int64_t step,
                                            const std::string& recipe) {
  std::map<std::string, std::string> facts{
      {"trained_steps", str(step)},
      {"weights", evaluation.of_averaged ? "averaged" : "trained"},
      {"recipe", recipe}};
  for (const auto& [name, value] : evaluation.metrics) facts["evaluation." + name] = str(value);
  return facts;
}

}  // namespace mala::train
