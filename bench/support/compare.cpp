// Compares tensors.
#include "bench/support/compare.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mala::bench {

namespace {

using at::Tensor;

// Float32 gives 1e-6 to 3e-6 at every shape we time, in ours and in the published formula, which
// leaves room for other orders of summation.
constexpr double kLargestError = 2e-5;

double relative_error(const Tensor& actual, const Tensor& expected) {
  const double difference = (actual.to(at::kDouble) - expected).abs().max().item<double>();
  const double size = expected.abs().max().item<double>();
  const double error = difference / size;
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

// Half the distance from one to the next larger number.
double rounding(DType dtype) {
  switch (dtype) {
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kFloat32:
      return 0x1p-24;
    case DType::kFloat64:
      break;
  }
  return 0x1p-53;
}

}  // namespace

double largest_error(const Results& actual, const Results& expected) {
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, relative_error(actual[i], expected[i]));
  }
  return largest;
}

// Ours rounds to the type of the tensors once. The published formula rounds after each step, which
// comes to seven times as much at the shapes we time.
double allowed_error(const std::string& impl, DType dtype) {
  const double roundings = impl == "published" ? 20 : 1;
  return kLargestError + (dtype == DType::kFloat32 ? 0 : roundings * rounding(dtype));
}

}  // namespace mala::bench
