// What must not disturb the kernels: a million tokens, neighbours in the batch, earlier calls, and
// numbers that are not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "mala/kernels/attention.h"
#include "tests/support/attention_problem.h"
#include "tests/support/compare.h"
#include "tests/support/every_isa.h"
#include "tests/support/facts.h"
#include "tests/support/sanitizers.h"

namespace mala::test {
namespace {

class AttentionRobustness : public IsaTest {};

double root_mean_square_error(const std::vector<double>& actual,
                              const std::vector<double>& expected) {
  double sum = 0;
  for (size_t i = 0; i < actual.size(); ++i)
    sum += (actual[i] - expected[i]) * (actual[i] - expected[i]);
  return std::sqrt(sum / static_cast<double>(actual.size()));
}

// The definition takes a second for a million tokens: once for all instruction sets.
const std::vector<double>& expected_out(const AttentionProblem<float>& problem) {
  static std::map<std::string, std::vector<double>> known;
  const auto [at, is_new] = known.try_emplace(describe(problem.about));
  if (is_new) at->second = run_reference(problem, Form::kBidirectional, Pass::kForward).out;
  return at->second;
}

// Sums in blocks: a thousand times the tokens do not cost digits. The root mean square, because the
// worst of a million rows is worse than the worst of a thousand whatever is summed.
TEST_P(AttentionRobustness, AMillionTokensAreAsExactAsAThousand) {
  constexpr int64_t kMany = kSanitized ? 50'000 : 1'000'000;
  constexpr double kTimesTheErrorOfAThousand = 2;
  auto error_of = [](int64_t tokens, Norm norm, const Rope& rope) {
    AttentionCase c{.queries = 1000, .keys = tokens};
    c.options.norm = norm;
    c.options.q_rope = c.options.k_rope = rope;
    const AttentionProblem<float> problem(c);
    const AttentionResults results = run_kernels(problem, Pass::kForward);
    return root_mean_square_error(results.out, expected_out(problem));
  };
  for (const auto& [norm, rope] :
       {std::pair(Norm::kPublished, Rope::none()), std::pair(Norm::kBalanced, Rope::line())}) {
    const double thousand = error_of(1000, norm, rope);
    EXPECT_GT(thousand, 1e-9);
    EXPECT_LT(error_of(kMany, norm, rope), kTimesTheErrorOfAThousand * thousand)
        << "norm " << static_cast<int>(norm) << ", rope " << static_cast<int>(rope.kind);
  }
}

// The same for the sums over queries that backward makes, seen in the gradients of few keys.
TEST_P(AttentionRobustness, ManyQueriesCostNoDigitsBackward) {
  constexpr int64_t kMany = kSanitized ? 20'000 : 200'000;
  AttentionCase c{.queries = kMany, .keys = 10};
  c.options.norm = Norm::kBalanced;
  AttentionProblem<float> problem(c);
  problem.out_gradient.fill(1);  // so that the sums grow with every query
  const AttentionResults results = run_kernels(problem), expected = run_reference(problem);
  // A float has 1.2e-7; a running float sum over this many would lose a hundred times that.
  EXPECT_LT(relative_error(results.v, expected.v), 2e-6);
}

AttentionCase batch_case() {
  AttentionCase c{.batch = 3, .heads = 2, .queries = 37, .keys = 45, .dim = 16, .value_dim = 24};
  c.options.q_rope = c.options.k_rope = Rope::line();
  c.set_tail(3);
  return c;
}

TEST_P(AttentionRobustness, AHeadAloneIsThatHeadInABatch) {
  for (const Norm norm : {Norm::kPublished, Norm::kBalanced}) {
    AttentionCase c = batch_case();
    c.options.norm = norm;
    const AttentionProblem<float> all(c);
    const AttentionResults together = run_kernels(all);
    AttentionCase alone_case = c;
    alone_case.batch = alone_case.heads = 1;
    for (int64_t index = 0; index < c.batch * c.heads; ++index) {
      AttentionProblem<float> alone(alone_case);
      alone.q.set_values(head_of(all.q.values(), c, index));
      alone.k.set_values(head_of(all.k.values(), c, index));
      alone.v.set_values(head_of(all.v.values(), c, index));
      alone.local.set_values(head_of(all.local.values(), c, index));
      alone.gate.set_values(head_of(all.gate.values(), c, index));
      alone.out_gradient.set_values(head_of(all.out_gradient.values(), c, index));
      expect_close<float>(head_of(together, c, index), run_kernels(alone), alone_case);
    }
  }
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

TEST_P(AttentionRobustness, NanInOneHeadLeavesTheOthersAsTheyWere) {
  for (const Layout layout : {Layout::kDense, Layout::kTokensFirst, Layout::kChannelsFirst}) {
    AttentionCase c = batch_case();
    c.set_input_layouts(layout);
    c.set_output_layouts(layout);
    AttentionProblem<float> problem(c);
    const AttentionResults clean = run_kernels(problem);
    constexpr int64_t kBad = 3;  // batch entry 1, head 1
    for (Tensor<float>* x : {&problem.q, &problem.k, &problem.v, &problem.gate}) {
      const MatrixView<float> head = x->view().head(1, 1);
      for (int64_t i = 0; i < head.rows; ++i) head.at(i, i % head.cols) = static_cast<float>(kNan);
    }
    const AttentionResults spoilt = run_kernels(problem);
    for (int64_t index = 0; index < c.batch * c.heads; ++index) {
      EXPECT_EQ(same_bits(head_of(spoilt, c, index), head_of(clean, c, index)), index != kBad);
    }
  }
}

TEST_P(AttentionRobustness, EarlierCallsLeaveNothingBehind) {
  const AttentionProblem<float> problem(batch_case());
  const AttentionResults first = run_kernels(problem);
  AttentionCase c{.heads = 4, .queries = 300, .keys = 200, .dim = 64, .value_dim = 64};
  AttentionProblem<float> other(c);
  other.k.fill(kNan);
  run_kernels(other);
  EXPECT_TRUE(same_bits(run_kernels(problem), first));
}

// One bad number in row kRow of a tensor with a row for each query.
constexpr int64_t kRow = 11;
using Rows = std::vector<int64_t>;

struct BadNumber {
  AttentionResults clean, results;
  int64_t queries;
  Rows rows(const std::vector<double> AttentionResults::*part) const {
    return changed_rows(results.*part, clean.*part, queries);
  }
};

BadNumber run_with(double bad, Layout layout, Feature feature,
                   const std::function<Tensor<float>&(AttentionProblem<float>&)>& where) {
  AttentionCase c{.queries = 37, .keys = 29, .dim = 16, .value_dim = 24};
  c.options.feature = feature;
  c.set_tail(3);
  c.set_input_layouts(layout);
  c.set_output_layouts(layout);
  c = well_conditioned(c);
  AttentionProblem<float> problem(c);
  BadNumber run{.clean = run_kernels(problem), .results = {}, .queries = c.queries};
  where(problem).view().head(0, 0).at(kRow, 5) = static_cast<float>(bad);
  run.results = run_kernels(problem);
  return run;
}

class BadNumbers : public AttentionRobustness {
 protected:
  // Every bad number in every layout.
  static void each(const std::function<void(double, Layout)>& check) {
    for (const double bad : {kNan, kInf, -kInf}) {
      for (const Layout layout : {Layout::kDense, Layout::kTokensFirst, Layout::kChannelsFirst}) {
        SCOPED_TRACE(str("bad number ", bad, ", layout ", name(layout)));
        check(bad, layout);
      }
    }
  }
};

// q_i goes into out_i alone; its gradients spoil those of k and v, which sum over queries.
TEST_P(BadNumbers, InAQueryStayInItsRow) {
  each([](double bad, Layout layout) {
    // -infinity is a number like others to elu1, whose feature of it is zero.
    if (bad == -kInf) return;
    const BadNumber run = run_with(
        bad, layout, Feature::kElu1, [](auto& p) -> auto& { return p.q; });
    EXPECT_EQ(run.rows(&AttentionResults::out), Rows{kRow});
    EXPECT_EQ(run.rows(&AttentionResults::q), Rows{kRow});
    EXPECT_EQ(run.rows(&AttentionResults::gate), Rows{kRow});
    EXPECT_EQ(run.rows(&AttentionResults::local), Rows{});
    for (int64_t e = 0; e < 24; ++e) EXPECT_FALSE(std::isfinite(run.results.out[kRow * 24 + e]));
  });
}

// No feature map may swallow a NaN.
TEST_P(BadNumbers, NanPassesEveryFeatureMap) {
  for (const Feature feature : kFeatures) {
    const BadNumber run = run_with(
        kNan, Layout::kDense, feature, [](auto& p) -> auto& { return p.q; });
    EXPECT_EQ(run.rows(&AttentionResults::out), Rows{kRow});
    for (int64_t e = 0; e < 24; ++e)
      EXPECT_TRUE(std::isnan(run.results.out[kRow * 24 + e]))
          << "feature " << static_cast<int>(feature);
  }
}

TEST_P(BadNumbers, InTheGateStayInItsRow) {
  each([](double bad, Layout layout) {
    const BadNumber run = run_with(
        bad, layout, Feature::kElu1, [](auto& p) -> auto& { return p.gate; });
    EXPECT_EQ(run.rows(&AttentionResults::out), Rows{kRow});
    EXPECT_EQ(run.rows(&AttentionResults::q), Rows{kRow});
    EXPECT_EQ(run.rows(&AttentionResults::local), Rows{kRow});
    EXPECT_EQ(run.rows(&AttentionResults::gate), Rows{});
    EXPECT_FALSE(std::isfinite(run.results.out[kRow * 24 + 5]));
    EXPECT_TRUE(std::isfinite(run.results.out[kRow * 24 + 6]));
  });
}

// `local` is added at the end: one element of out and of the gradient of the gate.
TEST_P(BadNumbers, InLocalStayInTheirElement) {
  each([](double bad, Layout layout) {
    const BadNumber run = run_with(
        bad, layout, Feature::kElu1, [](auto& p) -> auto& { return p.local; });
    EXPECT_EQ(run.rows(&AttentionResults::out), Rows{kRow});
    EXPECT_EQ(run.rows(&AttentionResults::gate), Rows{kRow});
    for (int64_t e = 0; e < 24; ++e)
      EXPECT_EQ(std::isfinite(run.results.out[kRow * 24 + e]), e != 5);
    EXPECT_TRUE(same_bits(run.results.q, run.clean.q));
    EXPECT_TRUE(same_bits(run.results.k, run.clean.k));
    EXPECT_TRUE(same_bits(run.results.v, run.clean.v));
    EXPECT_TRUE(same_bits(run.results.local, run.clean.local));
  });
}

TEST_P(BadNumbers, InAnOutGradientStayInTheRowOfItsQuery) {
  each([](double bad, Layout layout) {
    const BadNumber run = run_with(
        bad, layout, Feature::kElu1, [](auto& p) -> auto& { return p.out_gradient; });
    EXPECT_TRUE(same_bits(run.results.out, run.clean.out));
    EXPECT_EQ(run.rows(&AttentionResults::q), Rows{kRow});
    EXPECT_EQ(run.rows(&AttentionResults::local), Rows{kRow});
    EXPECT_EQ(run.rows(&AttentionResults::gate), Rows{kRow});
  });
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionRobustness, testing::ValuesIn(test::tested_isas()),
                         isa_name);
INSTANTIATE_TEST_SUITE_P(EveryIsa, BadNumbers, testing::ValuesIn(test::tested_isas()), isa_name);

}  // namespace
}  // namespace mala::test
