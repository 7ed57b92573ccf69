// The filters, stretched over as many input pixels as an output pixel covers.
#include "mala/data/image/resample_weights.h"

#include <algorithm>
#include <cmath>

namespace mala::data {
namespace {

struct Kernel {
  double reach;  // 0 beyond it
  double (*weight)(double);
};

double triangle(double x) { return std::max(1.0 - std::abs(x), 0.0); }

// Keys' cubic with a = -1/2: exact for parabolas.
double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1;
  if (x < 2.0) return (((x - 5) * x + 8) * x - 4) * a;
  return 0.0;
}

Kernel kernel_of(Filter filter) {
  return filter == Filter::kBicubic ? Kernel{2.0, cubic} : Kernel{1.0, triangle};
}

int32_t fixed(double weight) {
  const double scaled = weight * (1 << kWeightBits);
  return static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

}  // namespace

ResampleWeights make_weights(int64_t from, int64_t to, Filter filter) {
  const Kernel kernel = kernel_of(filter);
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0);  // antialias: only when pixels are merged
  const double reach = kernel.reach * stretch, shrink = 1.0 / stretch;
  ResampleWeights weights;
  weights.stride = static_cast<int64_t>(std::ceil(reach)) * 2 + 1;
  weights.values.resize(static_cast<size_t>(to * weights.stride));
  std::vector<double> line(static_cast<size_t>(weights.stride));
  for (int64_t i = 0; i < to; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto low = static_cast<int64_t>(centre - reach + 0.5);
    const auto high = static_cast<int64_t>(centre + reach + 0.5);
    const int64_t first = std::max<int64_t>(low, 0), count = std::min(high, from) - first;
    double sum = 0.0;
    for (int64_t k = 0; k < count; ++k) {
      const double distance = static_cast<double>(k + first) - centre + 0.5;
      line[static_cast<size_t>(k)] = kernel.weight(distance * shrink);
      sum += line[static_cast<size_t>(k)];
    }
    int32_t* const values = weights.values.data() + i * weights.stride;
    for (int64_t k = 0; k < count; ++k) values[k] = fixed(line[static_cast<size_t>(k)] / sum);
    weights.first.push_back(first);
    weights.count.push_back(count);
  }
  return weights;
}

}  // namespace mala::data
