// Rotary positions in double.
#include "mala/kernels/reference/rope.h"

#include <cmath>

namespace mala::reference {
namespace {

// Line: 10000^(-2t/D) over all pairs. Grid: 10000^(-t/(m-1)) over the m = D/4 pairs of a half.
Row make_frequencies(const Rope& rope, int64_t dim) {
  Row frequencies;
  if (rope.kind == Rope::Kind::kLine) {
    for (int64_t t = 0; t < dim / 2; ++t)
      frequencies.push_back(
          std::pow(10000.0, -2.0 * static_cast<double>(t) / static_cast<double>(dim)));
  }
  if (rope.kind == Rope::Kind::kGrid) {
    const int64_t m = dim / 4;
    for (int64_t t = 0; t < m; ++t)
      frequencies.push_back(
          std::pow(10000.0, -static_cast<double>(t) / static_cast<double>(m - 1)));
  }
  return frequencies;
}

}  // namespace

Rotation::Rotation(const Rope& rope, int64_t dim)
    : rope_(rope), frequencies_(make_frequencies(rope, dim)) {}

double Rotation::angle(int64_t token, int64_t pair) const {
  const int64_t position = rope_.offset + token;
  if (rope_.kind == Rope::Kind::kLine) return static_cast<double>(position) * frequencies_[pair];

  const int64_t half = static_cast<int64_t>(frequencies_.size());
  const int64_t row = position / rope_.width, column = position % rope_.width;
  return pair < half ? static_cast<double>(row) * frequencies_[pair]
                     : static_cast<double>(column) * frequencies_[pair - half];
}

Rotation::Turn Rotation::turn_of(int64_t token, int64_t pair) const {
  switch (rope_.kind) {
    case Rope::Kind::kNone:
      return {1, 0};
    case Rope::Kind::kTable: {
      const int64_t at = token * rope_.table_stride + pair;
      return {rope_.cos[at], rope_.sin[at]};
    }
    case Rope::Kind::kLine:
    case Rope::Kind::kGrid:
      break;
  }
  return {std::cos(angle(token, pair)), std::sin(angle(token, pair))};
}

Row Rotation::turn(int64_t token, const Row& x) const {
  Row y(x.size());
  for (size_t d = 0; d < x.size(); d += 2) {
    const auto [cos, sin] = turn_of(token, static_cast<int64_t>(d) / 2);
    y[d] = x[d] * cos - x[d + 1] * sin;
    y[d + 1] = x[d + 1] * cos + x[d] * sin;
  }
  return y;
}

Row Rotation::turn_back(int64_t token, const Row& x) const {
  Row y(x.size());
  for (size_t d = 0; d < x.size(); d += 2) {
    const auto [cos, sin] = turn_of(token, static_cast<int64_t>(d) / 2);
    y[d] = x[d] * cos + x[d + 1] * sin;
    y[d + 1] = x[d + 1] * cos - x[d] * sin;
  }
  return y;
}

}  // namespace mala::reference
