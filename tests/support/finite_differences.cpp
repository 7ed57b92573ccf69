// Slopes of a loss by differences of fourth order.
#include "tests/support/finite_differences.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace mala::test {
namespace {

// With this step the differences are good to about step^4 and 1e-16 / step.
constexpr double kStep = 1e-3;
constexpr double kDifferenceError = 1e-8;

void expect_slope_along(const std::vector<double>& direction, const Loss& loss, const Variable& x,
                        const std::string& where) {
  auto loss_at = [&](double step) {
    std::vector<double> moved = x.start;
    for (size_t i = 0; i < moved.size(); ++i) moved[i] += step * direction[i];
    x.set(moved);
    return loss();
  };
  const double near = loss_at(kStep) - loss_at(-kStep);
  const double far = loss_at(2 * kStep) - loss_at(-2 * kStep);
  x.set(x.start);
  const double slope = (8 * near - far) / (12 * kStep), expected = dot(direction, x.gradient);
  EXPECT_NEAR(slope, expected, kDifferenceError * std::max(1.0, std::abs(expected)))
      << x.name << ", " << where;
}

}  // namespace

double dot(const std::vector<double>& x, const std::vector<double>& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

Variable tensor_variable(const std::string& name, Tensor<double>& x,
                         const std::vector<double>& gradient) {
  return {name, x.values(), gradient,
          [&x](const std::vector<double>& values) { x.set_values(values); }};
}

void expect_slope(const Loss& loss, const Variable& x, Random& random, const std::string& where) {
  ASSERT_EQ(x.gradient.size(), x.start.size()) << x.name << ", " << where;
  std::vector<double> direction(x.start.size());
  for (double& d : direction) d = random.uniform(-1, 1);
  expect_slope_along(direction, loss, x, where);
}

void expect_every_slope(const Loss& loss, const Variable& x, const std::string& where) {
  ASSERT_EQ(x.gradient.size(), x.start.size()) << x.name << ", " << where;
  for (size_t i = 0; i < x.start.size(); ++i) {
    std::vector<double> direction(x.start.size());
    direction[i] = 1;
    expect_slope_along(direction, loss, x, where);
  }
}

void avoid_kinks(Tensor<double>& x) {
  std::vector<double> values = x.values();
  for (double& value : values) value += value > 0 ? 0.05 : -0.05;
  x.set_values(values);
}

}  // namespace mala::test
