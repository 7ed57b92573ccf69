// Theorems about the causal form, checked on the definition and on the kernels of every instruction
// set.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/causal_forms.h"
#include "tests/support/compare.h"
#include "tests/support/draw_causal_case.h"
#include "tests/support/every_implementation.h"
#include "tests/support/facts.h"
#include "tests/support/sequences.h"

namespace mala::test {
namespace {

// Results are about one, made of terms about s = 6 times as large: some roundings of those.
template <typename T>
constexpr double kRounding = 100 * std::numeric_limits<Compute<T>>::epsilon();

class CausalFacts : public ImplementationTest {
 protected:
  template <typename T>
  static CausalResults run(const CausalProblem<T>& problem, Pass pass = Pass::kForwardBackward) {
    return is_definition() ? run_reference(problem, pass) : run_kernels(problem, pass);
  }

  template <typename T>
  static std::vector<double> out_of(const AttentionProblem<T>& bidirectional) {
    return is_definition() ? run_reference(bidirectional, Form::kBidirectional, Pass::kForward).out
                           : run_kernels(bidirectional, Pass::kForward).out;
  }

  // The definition is in double alone.
  template <typename T>
  static CausalCalls<T> calls() {
    if constexpr (std::is_same_v<T, double>)
      if (is_definition()) return definition_calls();
    return kernel_calls<T>();
  }

  template <typename Check>
  static void in_each_type_it_has(Check&& check) {
    check(double{});
    if (is_definition()) return;
    check(float{});
    check(BFloat16{});
    check(Float16{});
  }
};

CausalCase usual_case(Rule rule, Norm norm, Rope::Kind kind) {
  CausalCase c = CausalCase::of(71, 32, 24);
  c.tokens.options = options_of(rule, norm);
  c.set_rope(some_rope(kind, 0));
  return c;
}

// Everything that flows: out, the state after, and the gradients of all, those of the states
// between the chunks handed on.
TEST_P(CausalFacts, ChunksAreTheWhole) {
  in_each_type_it_has([&](auto type) {
    using T = decltype(type);
    Random random(31);
    for (const Rule rule : kRules) {
      for (const Norm norm : kNorms) {
        for (const Rope::Kind kind : kRopeKinds) {
          CausalCase c = usual_case(rule, norm, kind);
          c.set_tokens(150);
          c.tokens.dim = 8;
          c.tokens.heads = c.tokens.group = 2;
          c.tokens.options.key_mean = random.coin();
          c.tokens.set_tail(static_cast<int>(random.integer(0, 3)));
          if (random.coin()) c.before = {random.integer(0, 100)};
          const CausalProblem<T> problem(well_conditioned(c));
          const std::vector<int64_t> chunks = draw_chunks(random, 150);
          SCOPED_TRACE(str(chunks.size(), " chunks, the first of ", chunks.front()));
          expect_close<T>(run_in_chunks(problem, chunks, calls<T>()), run_reference(problem),
                          problem.about);
        }
      }
    }
  });
}

TEST_P(CausalFacts, TwoChunksCutAnywhereAreTheWhole) {
  CausalCase c = usual_case(Rule::kMala, Norm::kBalanced, Rope::Kind::kLine);
  c.tokens.dim = 8;
  c.tokens.batch = 2;
  c.before = {5, 0};
  const CausalProblem<double> problem(c);
  const CausalResults whole = run(problem);
  for (int64_t first = 1; first < c.tokens.queries; ++first) {
    SCOPED_TRACE(str("cut at ", first));
    expect_close<double>(run_in_chunks(problem, {first, c.tokens.queries - first}, calls<double>()),
                         whole, c);
  }
}

TEST_P(CausalFacts, OutIsTheBidirectionalOutOnEveryPrefix) {
  in_each_type([&](auto type) {
    using T = decltype(type);
    for (const Rule rule : kRules) {
      for (const Norm norm : kNorms) {
        for (const Rope::Kind kind : kRopeKinds) {
          CausalCase c = usual_case(rule, norm, kind);
          c.tokens.dim = 16;
          c.tokens.heads = c.tokens.group = 2;
          const CausalProblem<T> problem(well_conditioned(c));
          const std::vector<double> out = run(problem, Pass::kForward).tokens.out;
          for (const int64_t t : {1, 2, 31, 32, 33, 63, 64, 65, 71}) {
            AttentionCase prefix = problem.about.tokens;
            prefix.queries = prefix.keys = t;
            AttentionProblem<T> bidirectional(prefix);
            take_tokens(problem.tokens, 0, bidirectional);
            const std::vector<double> expected = out_of(bidirectional);
            ASSERT_LE(max_error(row_of(out, problem.about.tokens, t - 1),
                                row_of(expected, prefix, t - 1)),
                      kRounding<T> * std::max(1.0, max_size(expected)))
                << "t " << t << ", " << describe(problem.about);
          }
        }
      }
    }
  });
}

// Rows that sum to one leave constant values as they are, also those that the state has seen.
TEST_P(CausalFacts, BalancedRowsSumToOneForEveryEpsAndRope) {
  in_each_type_it_has([&](auto type) {
    using T = decltype(type);
    for (const Rule rule : kRules) {
      for (const Rope::Kind kind : kRopeKinds) {
        for (const double eps : {0.0, 1e-6, 0.5}) {
          CausalCase c = usual_case(rule, Norm::kBalanced, kind);
          c.tokens.options.eps = eps;
          CausalProblem<T> problem(c);
          problem.tokens.v.fill(3);
          // Three is a number of every type, and in the narrow ones none is near it.
          const double near = sizeof(T) == 2 ? 0 : 3 * kRounding<T>;
          for (const CausalResults& results :
               {run(problem), run_in_chunks(problem, {1, 40, 30}, calls<T>())})
            for (const double y : results.tokens.out) ASSERT_NEAR(y, 3, near) << describe(c);
        }
      }
    }
  });
}

TEST_P(CausalFacts, MalaIsInlinePlusLinearMinusTheMeanValueSoFar) {
  in_each_type([&](auto type) {
    using T = decltype(type);
    for (const Norm norm : kNorms) {
      for (const Rope::Kind kind : kRopeKinds) {
        CausalCase c = well_conditioned(usual_case(Rule::kMala, norm, kind));
        auto out_of = [&](Rule rule) {
          c.tokens.options.rule = rule;
          return run(CausalProblem<T>(c), Pass::kForward).tokens.out;
        };
        const std::vector<double> mala = out_of(Rule::kMala), linear = out_of(Rule::kLinear),
                                  inlined = out_of(Rule::kInline);
        const std::vector<double> v = CausalProblem<T>(c).tokens.v.values();
        std::vector<double> sum(c.tokens.value_dim);
        for (size_t at = 0; at < mala.size(); ++at) {
          const size_t e = at % sum.size();
          sum[e] += v[at];
          const double mean = sum[e] / static_cast<double>(at / sum.size() + 1);
          ASSERT_NEAR(mala[at], inlined[at] + linear[at] - mean, 2 * kRounding<T>) << describe(c);
        }
      }
    }
  });
}

// The first token sees itself alone: without RoPE and eps its out is its value.
TEST_P(CausalFacts, TheFirstTokenSeesItself) {
  for (const Rule rule : kRules) {
    for (const Norm norm : kNorms) {
      CausalCase c = usual_case(rule, norm, Rope::Kind::kNone);
      c.tokens.options.eps = 0;
      const CausalProblem<float> problem(c);
      const std::vector<double> out = run(problem, Pass::kForward).tokens.out;
      EXPECT_LE(max_error(row_of(out, c.tokens, 0), row_of(problem.tokens.v.values(), c.tokens, 0)),
                2 * kRounding<float>)
          << describe(c);
    }
  }
}

// Without a norm the rule mala takes the balanced one, the others the published.
TEST_P(CausalFacts, TheNormWhereNoneIsGiven) {
  for (const Rule rule : kRules) {
    CausalCase c = usual_case(rule, Norm::kPublished, Rope::Kind::kLine);
    if (rule == Rule::kMala) c.tokens.options.norm = Norm::kBalanced;
    c.before = {3};
    const CausalResults named = run(CausalProblem<float>(c));
    c.tokens.options.norm = {};
    EXPECT_TRUE(same_bits(run(CausalProblem<float>(c)), named)) << describe(c);
    c.tokens.options.norm = Norm::kPrinted;
    EXPECT_FALSE(same_bits(run(CausalProblem<float>(c)), named)) << describe(c);
  }
}

// A state of nothing is no state, forward and backward.
TEST_P(CausalFacts, AStateOfNoTokensIsNone) {
  for (const Norm norm : kNorms) {
    CausalCase c = usual_case(Rule::kMala, norm, Rope::Kind::kLine);
    c.tokens.batch = 2;
    const CausalResults none = run(CausalProblem<float>(c));
    c.before = {0, 0};
    const CausalProblem<float> problem(c);
    ASSERT_EQ(max_size(problem.sums), 0);
    EXPECT_TRUE(same_bits(run(problem), none)) << describe(c);
  }
}

// What the caller does not ask for changes nothing of the rest.
TEST_P(CausalFacts, StatesThatAreNotWantedChangeNoBit) {
  CausalCase c = usual_case(Rule::kMala, Norm::kBalanced, Rope::Kind::kLine);
  c.tokens.batch = 2;
  c.before = {7, 0};
  CausalProblem<float> all(c);
  std::fill(all.after_gradient.begin(), all.after_gradient.end(), 0.0);
  const CausalResults with = run(all);
  c.after = c.before_gradient = false;
  const CausalResults without = run(CausalProblem<float>(c));
  EXPECT_TRUE(same_bits(without.tokens, with.tokens));
  EXPECT_EQ(without.after.size() + without.before_gradient.size() + without.counts.size(), 0u);
}

// The state after may be the very memory of the state before; with groups several heads read it.
TEST_P(CausalFacts, TheStateMayBeBroughtUpToDateInPlace) {
  for (const int64_t tokens : {1, 40, 700}) {
    CausalCase c = usual_case(Rule::kMala, Norm::kBalanced, Rope::Kind::kLine);
    c.set_tokens(tokens);
    c.tokens.dim = 8;
    c.tokens.batch = 2;
    c.tokens.heads = 4;
    c.tokens.group = 2;
    c.before = {7, 0};
    const CausalProblem<double> problem(c);
    CausalResults expected = run(problem, Pass::kForward);
    CausalResults in_place{.after = problem.sums, .counts = c.before};
    Tensor<double> out(problem.tokens.out_shape(), Layout::kDense);
    calls<double>().forward({problem.tokens.inputs(), {in_place.after, in_place.counts}},
                            problem.tokens.options, out.view(), {in_place.after, in_place.counts});
    in_place.tokens.out = out.values();
    EXPECT_TRUE(same_bits(in_place, expected)) << describe(c);
  }
}

// A sequence with its state, among others or alone.
TEST_P(CausalFacts, ASequenceAloneIsThatSequenceAmongOthers) {
  CausalCase batch = usual_case(Rule::kMala, Norm::kBalanced, Rope::Kind::kTable);
  batch.tokens.dim = 16;
  batch.tokens.batch = 3;
  batch.tokens.heads = 4;
  batch.tokens.group = 2;
  batch.before = {0, 5, 12};
  CausalCase packed = batch;
  packed.pack({3, 70, 1, 40});
  packed.before = {4, 0, 9, 33};
  for (const CausalCase& c : {batch, packed}) {
    const CausalProblem<double> all(c);
    const CausalResults together = run(all);
    for (int64_t s = 0; s < c.tokens.sequences(); ++s) {
      SCOPED_TRACE(str("sequence ", s));
      const CausalCase one = sequence_case(c, s);
      CausalProblem<double> alone(one);
      take_sequence(all, s, alone);
      expect_close<double>(run(alone), sequence_results(together, c, s), one);
    }
  }
}

// Queries without any feature: mala and linear give nothing, balanced and inline the mean value.
TEST_P(CausalFacts, AQueryOfZeroFeatures) {
  for (const Rope::Kind kind : kRopeKinds) {
    for (const Rule rule : kRules) {
      for (const Norm norm : kNorms) {
        CausalCase c = usual_case(rule, norm, kind);
        c.tokens.options.feature = Feature::kRelu;
        CausalProblem<float> problem(c);
        problem.tokens.q.fill(-1);
        problem.tokens.v.fill(2);
        const bool mean = norm == Norm::kBalanced || rule == Rule::kInline;
        const CausalResults results = run(problem);
        for (const double y : results.tokens.out) ASSERT_NEAR(y, mean ? 2 : 0, kRounding<float>);
        for (const double dq : results.tokens.q) ASSERT_EQ(dq, 0);
        for (const double dk : results.tokens.k) ASSERT_TRUE(std::isfinite(dk)) << describe(c);
      }
    }
  }
}

// s from far below eps to usual sizes, of tokens that see a single key and more.
TEST_P(CausalFacts, SmallMagnitudesStayFinite) {
  for (const Rope::Kind kind : kRopeKinds) {
    for (const Rule rule : kRules) {
      for (const Norm norm : kNorms) {
        CausalCase c = usual_case(rule, norm, kind);
        c.tokens.q_low = -60;
        c.tokens.q_high = -3;
        c.before = {2};
        const CausalResults results = run(CausalProblem<float>(c));
        const AttentionResults& r = results.tokens;
        for (const auto* x : {&r.out, &r.q, &r.k, &r.v, &results.before_gradient})
          for (const double y : *x) ASSERT_TRUE(std::isfinite(y)) << describe(c);
        if (kind == Rope::Kind::kNone) {
          EXPECT_LE(max_size(r.out), 1.6) << describe(c);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(DefinitionAndEveryIsa, CausalFacts, testing::ValuesIn(implementations()),
                         isa_name);

}  // namespace
}  // namespace mala::test
