// The definition of the causal form with its states: finite differences for the gradients into and
// out of them, and the sums themselves. What it shares with the kernels is in
// causal_facts_test.cpp.
#include <gtest/gtest.h>

#include <cmath>
#include <complex>

#include "tests/support/causal_problem.h"
#include "tests/support/compare.h"
#include "tests/support/finite_differences.h"

namespace mala::test {
namespace {

// Without lengths, with key counts, and packed; each with what came before, which is nothing for
// some sequences.
std::vector<CausalCase> cases_with_state() {
  CausalCase plain = CausalCase::of(5, 8, 16);
  plain.tokens.batch = 2;
  plain.tokens.heads = 4;
  plain.tokens.group = 2;
  plain.before = {3, 0};
  CausalCase counted = plain;
  counted.tokens.batch = 3;
  counted.tokens.lengths.key_counts = {5, 1, 3};
  counted.before = {0, 4, 2};
  CausalCase packed = plain;
  packed.pack({3, 1, 4});
  packed.tokens.lengths.q_widths = packed.tokens.lengths.k_widths = {2, 5, 4};
  packed.before = {7, 0, 2};
  return {plain, counted, packed};
}

// sum(out * g) + sum(after * its gradient), of which run_reference gives the gradients.
Loss loss_of(const CausalProblem<double>& problem) {
  return [&problem] {
    const CausalResults results = run_reference(problem, Pass::kForward);
    return dot(results.tokens.out, problem.tokens.out_gradient.values()) +
           dot(results.after, problem.after_gradient);
  };
}

// The inputs of a problem, sums among them, with the gradients that the definition gives for them.
std::vector<Variable> variables(CausalProblem<double>& p) {
  avoid_kinks(p.tokens.q);
  avoid_kinks(p.tokens.k);
  const CausalResults r = run_reference(p);
  std::vector<Variable> all{tensor_variable("q", p.tokens.q, r.tokens.q),
                            tensor_variable("k", p.tokens.k, r.tokens.k),
                            tensor_variable("v", p.tokens.v, r.tokens.v),
                            {"the sums before", p.sums, r.before_gradient,
                             [&p](const std::vector<double>& values) { p.sums = values; }}};
  if (p.about.tokens.local) all.push_back(tensor_variable("local", p.tokens.local, r.tokens.local));
  if (p.about.tokens.gate) all.push_back(tensor_variable("gate", p.tokens.gate, r.tokens.gate));
  return all;
}

TEST(CausalReference, GradientsAreFiniteDifferences) {
  Random random(21);
  for (CausalCase c : cases_with_state()) {
    for (const AttentionOptions& options : every_option(3, 1)) {
      c.tokens.options = options;
      c.tokens.set_tail(static_cast<int>(++c.tokens.seed % 4));
      CausalProblem<double> problem(well_conditioned(c));
      for (const Variable& x : variables(problem))
        expect_slope(loss_of(problem), x, random, describe(problem.about));
    }
  }
}

TEST(CausalReference, EveryElementOfTheGradientsIsAFiniteDifference) {
  for (const Norm norm : kNorms) {
    CausalCase c = CausalCase::of(3, 8, 8);
    c.tokens.heads = c.tokens.group = 2;
    c.tokens.options.norm = norm;
    c.before = {4};
    c.set_rope(Rope::line(2));
    CausalProblem<double> problem(well_conditioned(c));
    for (const Variable& x : variables(problem))
      expect_every_slope(loss_of(problem), x, describe(problem.about));
  }
}

// Token `position` turns pair `pair` of a head by this.
std::complex<double> turn(int64_t position, int64_t pair, int64_t dim) {
  const double t = static_cast<double>(pair), pairs = static_cast<double>(dim) / 2;
  return std::polar(1.0, static_cast<double>(position) * std::pow(10000, -t / pairs));
}

// Straight from the formulas: S, sum phi(k), sum R phi(k) and sum v of one entry and head.
std::vector<double> state_after(const CausalProblem<double>& p, int64_t entry, int64_t head) {
  const AttentionCase& c = p.about.tokens;
  const int64_t size = attention_state_size(1, 1, c.dim, c.value_dim);
  const auto before = p.sums.begin() + (entry * c.kv_heads() + head) * size;
  std::vector<double> state(before, before + size);
  double *const s = state.data(), *const z = s + c.dim * c.value_dim, *const z_rotated = z + c.dim,
                *const u = z_rotated + c.dim;
  auto phi = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
  const MatrixView<const double> k = p.tokens.inputs().k.head(entry, head),
                                 v = p.tokens.inputs().v.head(entry, head);
  for (int64_t j = 0; j < c.lengths.key_counts[entry]; ++j) {
    const int64_t position = c.options.k_rope.offset + p.about.before[entry] + j;
    for (int64_t d = 0; d < c.dim; ++d) {
      const int64_t even = d - d % 2;
      const std::complex<double> b{phi(k.at(j, even)), phi(k.at(j, even + 1))};
      const std::complex<double> turned = b * turn(position, d / 2, c.dim);
      const double rotated = d == even ? turned.real() : turned.imag();
      z[d] += phi(k.at(j, d));
      z_rotated[d] += rotated;
      for (int64_t e = 0; e < c.value_dim; ++e) s[d * c.value_dim + e] += rotated * v.at(j, e);
    }
    for (int64_t e = 0; e < c.value_dim; ++e) u[e] += v.at(j, e);
  }
  return state;
}

TEST(CausalReference, TheStateAfterIsTheSumOverAllKeysThatCount) {
  CausalCase c = cases_with_state()[1];
  c.set_rope(Rope::line(6));
  const CausalProblem<double> problem(c);
  std::vector<double> expected;
  for (int64_t entry = 0; entry < 3; ++entry) {
    for (int64_t head = 0; head < 2; ++head) {
      const std::vector<double> one = state_after(problem, entry, head);
      expected.insert(expected.end(), one.begin(), one.end());
    }
  }
  const CausalResults results = run_reference(problem, Pass::kForward);
  EXPECT_LT(relative_error(results.after, expected), 1e-14);
  EXPECT_EQ(results.counts, (std::vector<int64_t>{5, 5, 5}));
}

}  // namespace
}  // namespace mala::test
