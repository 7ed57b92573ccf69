// Maps and measures of each stage from what the probe took out.
#include "mala/tasks/explain/explain.h"

#include <algorithm>
#include <cmath>

#include "mala/core/error.h"
#include "mala/models/vision/probe.h"
#include "mala/tasks/explain/curves.h"
#include "mala/tasks/explain/measures.h"

namespace mala::tasks {
namespace {

double mean_of(const Tensor& x) { return x.mean().item<double>(); }

std::vector<float> numbers_of(const Tensor& x) {
  const Tensor plain = x.to(torch::kFloat32).contiguous();
  return {plain.const_data_ptr<float>(), plain.const_data_ptr<float>() + plain.numel()};
}

// `weights` is (H, 1, N).
QueryMap map_of(const Tensor& weights) {
  const Tensor in_means = weights.squeeze(1) * static_cast<double>(weights.size(-1));
  QueryMap map{.weights = {numbers_of(in_means.mean(0))},
               .entropy = mean_of(entropy_of(weights)),
               .sum = mean_of(weights.sum(-1)),
               .negative = mean_of(negative_part(weights))};
  for (int64_t head = 0; head < weights.size(0); ++head) {
    map.weights.push_back(numbers_of(in_means[head]));
  }
  return map;
}

// Whether longer queries look more sharply, within each head.
double sharpening(const Tensor& sizes, const Tensor& entropies) {
  return mean_of(rank_correlation(sizes, -entropies));
}

RuleMeasures measure(nn::Mixer rule, const nn::MapScores& scores) {
  const Tensor weights = weights_of(rule, scores);
  const Tensor softmax = weights_of(nn::Mixer::kSoftmax, scores);
  const Tensor entropies = entropy_of(weights);
  const Tensor& sizes = rule == nn::Mixer::kSoftmax ? scores.lengths : scores.magnitude;
  return {.entropy = mean_of(entropies),
          .sum = mean_of(weights.sum(-1)),
          .negative = mean_of(negative_part(weights)),
          .divergence = mean_of(divergence(softmax, weights)),
          .rank_correlation = mean_of(rank_correlation(softmax, weights)),
          .sharpening = sharpening(sizes, entropies)};
}

Spread spread_of(const Tensor& x) {
  const Tensor ends = torch::quantile(x.flatten(), torch::tensor({0.1, 0.9}, torch::kFloat64));
  return {ends[0].item<double>(), mean_of(x), ends[1].item<double>()};
}

int64_t token_at(Point point, nn::GridSize grid) {
  const auto cell = [](double place, int64_t count) {
    const auto index = static_cast<int64_t>(std::floor(place * static_cast<double>(count)));
    return std::clamp<int64_t>(index, 0, count - 1);
  };
  return cell(point.y, grid.height) * grid.width + cell(point.x, grid.width);
}

// Spread evenly over the grid, and all where there are no more.
Tensor sample_of(nn::GridSize grid, int64_t sample) {
  const int64_t count = std::min(sample, grid.tokens());
  const Tensor steps = torch::arange(count, torch::kFloat64) + 0.5;
  const double step = static_cast<double>(grid.tokens()) / static_cast<double>(count);
  return (steps * step).floor().to(torch::kInt64);
}

StageExplanation explain_stage(const models::StageProbe& probe, Point point, int64_t sample) {
  StageExplanation stage{.grid = probe.grid,
                         .heads = probe.q.size(0),
                         .head_dim = probe.q.size(2),
                         .token = token_at(point, probe.grid),
                         .mixer = probe.mixer};
  const nn::MapScores asked = score(probe, torch::tensor({stage.token}, torch::kInt64));
  const nn::MapScores many = score(probe, sample_of(probe.grid, sample));
  for (size_t i = 0; i < kRules; ++i) {
    stage.maps[i] = map_of(weights_of(kExplained[i], asked));
    stage.measures[i] = measure(kExplained[i], many);
  }
  stage.length = spread_of(many.lengths);
  stage.magnitude = spread_of(many.magnitude);
  stage.ratio = ratio_curves(asked);
  return stage;
}

}  // namespace

std::vector<StageExplanation> explain(models::MavitImpl& model, const Tensor& image, Point point,
                                      int64_t sample) {
  check(point.x >= 0 && point.x <= 1 && point.y >= 0 && point.y <= 1, "explain", "the point ",
        point.x, ", ", point.y, " lies outside the picture; both numbers are from 0 to 1");
  check(sample > 0, "explain", "a sample of ", sample, " queries; take at least one");
  std::vector<StageExplanation> stages;
  for (models::StageProbe& stage : probe(model, image)) {
    for (Tensor* part : {&stage.q, &stage.k, &stage.v}) {  // maps are small, and drawn here
      *part = part->to(torch::kCPU, torch::promoteTypes(part->scalar_type(), torch::kFloat32));
    }
    check(stage.q.isfinite().all().item<bool>() && stage.k.isfinite().all().item<bool>(), "explain",
          "the model's queries or keys in stage ", stages.size() + 1,
          " are not finite; are the weights whole?");
    stages.push_back(explain_stage(stage, point, sample));
  }
  return stages;
}

}  // namespace mala::tasks
