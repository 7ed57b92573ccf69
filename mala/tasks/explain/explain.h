// What the attention of a model sees from one point of a picture, under four rules and from the
// same queries and keys: as numbers, before anything is drawn.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "mala/models/vision/mavit.h"

namespace mala::tasks {

// In the order in which they are shown: what is wanted, what is cheap, and what is both.
inline constexpr std::array kExplained{nn::Mixer::kSoftmax, nn::Mixer::kLinear, nn::Mixer::kInline,
                                       nn::Mixer::kMala};
inline constexpr size_t kRules = kExplained.size();

// A place in the picture that the model sees, from 0 to 1.
struct Point {
  double x = 0.5, y = 0.5;
};

// How one query looks at all tokens.
struct QueryMap {
  // Row by row, times their number: 1 is an even look. The mean of the heads first, then each head.
  std::vector<std::vector<float>> weights = {};
  double entropy = 0, sum = 0, negative = 0;  // means over heads, see measures.h
};

// The same for many queries, means over queries and heads.
struct RuleMeasures {
  double entropy = 0, sum = 0, negative = 0;
  double divergence = 0, rank_correlation = 0;  // from and with softmax's maps
  double sharpening = 0;  // rank correlation of a query's size with the sharpness of its map
};

// Of many queries: the mean, and what a tenth of them lies below and above.
struct Spread {
  double low = 0, mean = 0, high = 0;
};

// The weight of key a over that of key b as the query grows, under each rule.
struct RatioCurves {
  std::vector<double> growths = {};
  std::array<std::vector<double>, kRules> measured = {};  // from the weights
  std::array<std::vector<double>, kRules> formula = {};   // what the paper says
  int64_t a = 0, b = 0, head = 0;
};

struct StageExplanation {
  nn::GridSize grid;
  int64_t heads = 1, head_dim = 0;
  int64_t token = 0;                   // the query, in the grid
  nn::Mixer mixer = nn::Mixer::kMala;  // what the model itself has here
  std::array<QueryMap, kRules> maps = {};
  std::array<RuleMeasures, kRules> measures = {};
  Spread length = {}, magnitude = {};     // |q|, and s as the keys see it
  std::optional<RatioCurves> ratio = {};  // where two keys keep positive weights
};

// Image is (1, 3, H, W), normalised. Every `sample` queries of a stage are measured, spread evenly.
std::vector<StageExplanation> explain(models::MavitImpl& model, const models::Tensor& image,
                                      Point point, int64_t sample = 64);

}  // namespace mala::tasks
