// Gradients against finite differences of a loss.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/tensor.h"

namespace mala::test {

// Something that a loss depends on, its gradient as somebody claims it, and how to move it.
struct Variable {
  std::string name;
  std::vector<double> start, gradient;
  std::function<void(const std::vector<double>&)> set;
};

Variable tensor_variable(const std::string& name, Tensor<double>& x,
                         const std::vector<double>& gradient);

using Loss = std::function<double()>;

// Each fails the running test where the slope of the loss is not what the gradient says: along a
// random direction, in which no element can hide, or element by element, so that a wrong one is
// named.
void expect_slope(const Loss& loss, const Variable& x, Random& random, const std::string& where);
void expect_every_slope(const Loss& loss, const Variable& x, const std::string& where);

// Moves numbers off zero, where relu and elu1 have kinks that differences would straddle.
void avoid_kinks(Tensor<double>& x);

double dot(const std::vector<double>& x, const std::vector<double>& y);

}  // namespace mala::test
