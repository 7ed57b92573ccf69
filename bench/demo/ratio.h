// The paper's test: how the ratio of two attention weights changes when the query grows.
#pragma once

#include <vector>

namespace mala::bench {

// Weight of key A over weight of key B, for a query `growth` times as long.
struct RatioRow {
  double growth = 1;
  double softmax = 0, linear = 0, mala = 0;                          // measured from the operators
  double softmax_formula = 0, linear_formula = 0, mala_formula = 0;  // what the paper says
};

constexpr int kRatioKeys = 64;

// One query against 64 keys, the same numbers each time, for growth 1, 2, 4 and 8.
std::vector<RatioRow> measure_ratios();

// The largest relative difference between measured and formula in all rows.
double largest_difference(const std::vector<RatioRow>& rows);

}  // namespace mala::bench
