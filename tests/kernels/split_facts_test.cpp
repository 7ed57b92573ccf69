// What the halves have to do with the whole operator and with each other.
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/every_isa.h"
#include "tests/support/finite_differences.h"
#include "tests/support/split_problem.h"

namespace mala::test {
namespace {

class SplitFacts : public IsaTest {};

std::vector<AttentionCase> few_and_many_units() {
  AttentionCase few{.heads = 4, .group = 2, .queries = 300, .keys = 700, .dim = 16};
  AttentionCase many{.batch = 40, .heads = 4, .group = 2, .queries = 9, .keys = 12};
  AttentionCase packed{.heads = 2, .value_dim = 24};
  packed.pack({5, 100, 31}, {300, 7, 40});
  for (AttentionCase* c : {&few, &many, &packed}) {
    c->options.q_rope = c->options.k_rope = Rope::line(2);
    c->set_tail(3);
  }
  return {few, many, packed};
}

template <typename T>
std::vector<double> state_of_whole(const AttentionProblem<T>& problem) {
  const AttentionCase& c = problem.about;
  std::vector<Compute<T>> state(
      attention_state_size(c.sequences(), c.kv_heads(), c.dim, c.value_dim));
  std::vector<std::byte> scratch(attention_scratch_bytes(problem.inputs(), problem.options));
  Tensor<T> out(problem.out_shape(), Layout::kDense, Role::kOutput);
  attention_forward<T>(problem.inputs(), problem.options, out.view(), state, scratch);
  return {state.begin(), state.end()};
}

// The same passes on the same tokens give the same bits. Only keys come to their gradients by
// another way, because one caller cannot know the mean value of all.
TEST_P(SplitFacts, OneCallerIsTheWholeOperator) {
  for (AttentionCase c : few_and_many_units()) {
    for (const Norm norm : kNorms) {
      c.options.norm = norm;
      const SplitProblem<float> problem(split_case(well_conditioned(c), 1));
      const SplitResults halves = run_halves(problem);
      const AttentionResults whole = run_kernels(problem.whole);
      SCOPED_TRACE(describe(problem.about));
      EXPECT_TRUE(same_bits(halves.state, state_of_whole(problem.whole)));
      EXPECT_TRUE(same_bits(halves.tokens.out, whole.out));
      EXPECT_TRUE(same_bits(halves.tokens.q, whole.q));
      EXPECT_TRUE(same_bits(halves.tokens.local, whole.local));
      EXPECT_TRUE(same_bits(halves.tokens.gate, whole.gate));
      expect_close<float>(halves.tokens, whole, problem.about.whole);
    }
  }
}

TEST_P(SplitFacts, StatesOfAllCallersAddUpToThatOfTheWhole) {
  for (const AttentionCase& c : few_and_many_units()) {
    for (const int64_t callers : {2, 5}) {
      const SplitProblem<double> problem(split_case(c, callers));
      EXPECT_LT(relative_error(run_halves(problem).state, state_of_whole(problem.whole)), 1e-14)
          << describe(problem.about);
    }
  }
}

// The sums know nothing of what queries will make of them.
TEST_P(SplitFacts, TheStateDoesNotDependOnRuleNormScaleOrEps) {
  AttentionCase c{.queries = 5, .keys = 40, .dim = 16};
  c.options.q_rope = c.options.k_rope = Rope::line();
  const std::vector<double> state = run_halves(SplitProblem<float>(split_case(c, 1))).state;
  c.options.rule = Rule::kLinear;
  c.options.norm = Norm::kBalanced;
  c.options.scale = 0.7;
  c.options.eps = 0.1;
  c.options.key_mean = false;
  EXPECT_TRUE(same_bits(run_halves(SplitProblem<float>(split_case(c, 1))).state, state));
}

TEST_P(SplitFacts, SameBitsForAnyThreadsRunAfterRun) {
  for (AttentionCase c : few_and_many_units()) {
    for (const Norm norm : {Norm::kPublished, Norm::kBalanced}) {
      c.options.norm = norm;
      const SplitProblem<float> problem(split_case(c, 2));
      SplitResults first;
      for (const int64_t threads : {1, 1, 2, 3, 5}) {
        const ThreadCount scope(threads);
        const SplitResults results = run_halves(problem);
        if (first.state.empty()) first = results;
        EXPECT_TRUE(same_bits(results, first))
            << threads << " threads, " << describe(problem.about);
      }
    }
  }
}

// Backward's two halves, each alone, in double.
struct Halves {
  explicit Halves(const AttentionCase& c)
      : problem(split_case(c, 1)),
        state(attention_state_size(c.sequences(), c.kv_heads(), c.dim, c.value_dim)),
        gradient(state.size()),
        out(c_out(problem.whole)) {
    avoid_kinks(shard().problem.k);
    sum_keys();
  }

  Shard<double>& shard() { return *problem.shards[0]; }
  const AttentionOptions& options() { return shard().problem.options; }
  TotalState<double> total() { return {state, counts, problem.about.whole.kv_heads()}; }
  std::span<std::byte> scratch(int64_t bytes) {
    memory.resize(bytes);
    return memory;
  }
  std::span<std::byte> keys_scratch() {
    return scratch(keys_scratch_bytes(shard().keys_inputs(), options()));
  }
  std::span<std::byte> queries_scratch() {
    return scratch(queries_scratch_bytes(shard().queries_inputs(), options(), total(),
                                         problem.about.whole.value_dim));
  }

  void sum_keys() { keys_forward<double>(shard().keys_inputs(), options(), state, keys_scratch()); }
  std::vector<double> apply_queries() {
    queries_forward<double>(shard().queries_inputs(), options(), total(), out.view(),
                            queries_scratch());
    return out.values();
  }

  SplitProblem<double> problem;
  std::vector<int64_t> counts = problem.shards[0]->key_counts();
  std::vector<double> state, gradient;
  Tensor<double> out;
  std::vector<std::byte> memory;

 private:
  static Tensor<double> c_out(const AttentionProblem<double>& whole) {
    return {whole.out_shape(), Layout::kDense, Role::kOutput};
  }
};

// sum(out * g) as a function of the state's numbers.
Variable state_variable(Halves& x) {
  Tensor<double> dq = x.problem.whole.q, dlocal = x.problem.whole.local,
                 dgate = x.problem.whole.gate;
  queries_backward<double>(x.shard().queries_inputs(), x.options(), x.total(),
                           x.shard().problem.out_gradient.view(),
                           {.q = dq.view(), .local = dlocal.view(), .gate = dgate.view()},
                           x.gradient, x.queries_scratch());
  return {"the state", x.state, x.gradient,
          [&x](const std::vector<double>& values) { x.state = values; }};
}

Loss loss_of_queries(Halves& x) {
  return [&x] { return dot(x.apply_queries(), x.shard().problem.out_gradient.values()); };
}

TEST_P(SplitFacts, TheStateGradientIsAFiniteDifference) {
  Random random(31);
  AttentionCase c{.batch = 2, .heads = 4, .group = 2, .queries = 5, .keys = 6, .value_dim = 16};
  for (const AttentionOptions& options : every_option(3, 1)) {
    c.options = options;
    c.options.eps = 0.5;  // where s is next to nothing, differences would straddle the pole
    c.set_tail(static_cast<int>(++c.seed % 4));
    Halves x(well_conditioned(c));
    expect_slope(loss_of_queries(x), state_variable(x), random, describe(x.problem.about));
  }
}

TEST_P(SplitFacts, EveryElementOfTheStateGradientIsAFiniteDifference) {
  for (const Norm norm : kNorms) {
    AttentionCase c{.heads = 2, .group = 2, .queries = 3, .keys = 4, .dim = 8, .value_dim = 16};
    c.options.norm = norm;
    c.options.q_rope = c.options.k_rope = Rope::line(2);
    Halves x(well_conditioned(c));
    expect_every_slope(loss_of_queries(x), state_variable(x), describe(x.problem.about));
  }
}

// The gradient of the sums may be anything, not only what a norm makes: sum(state * gradient).
TEST_P(SplitFacts, KeyGradientsOfAnyStateGradientAreFiniteDifferences) {
  Random random(32);
  AttentionCase c{.batch = 2, .heads = 2, .queries = 2, .keys = 6, .dim = 8, .value_dim = 16};
  for (const AttentionOptions& options : every_option(3, 1)) {
    c.options = options;
    ++c.seed;
    Halves x(well_conditioned(c));
    for (double& number : x.gradient) number = random.uniform(-1, 1);
    Tensor<double>&k = x.shard().problem.k, &v = x.shard().problem.v;
    Tensor<double> dk = k, dv = v;
    keys_backward<double>(x.shard().keys_inputs(), x.options(), x.gradient,
                          {.k = dk.view(), .v = dv.view()}, x.keys_scratch());
    const Loss loss = [&x] {
      x.sum_keys();
      return dot(x.state, x.gradient);
    };
    const std::string where = describe(x.problem.about);
    expect_slope(loss, tensor_variable("k", k, dk.values()), random, where);
    expect_slope(loss, tensor_variable("v", v, dv.values()), random, where);
  }
}

// Views with stride 0 stand for any number of tokens here, without the memory.
TEST_P(SplitFacts, ScratchDoesNotGrowWithTokens) {
  std::vector<float> one(64), state(attention_state_size(1, 1, 64, 64));
  const std::vector<int64_t> counts{1000};
  auto bytes = [&](int64_t tokens) {
    const HeadsView<const float> x{one.data(), 1, 1, tokens, 64, 0, 0, 0, 1};
    return std::pair(keys_scratch_bytes<float>({x, x}, {}),
                     queries_scratch_bytes<float>({.q = x}, {}, {state, counts, 1}, 64));
  };
  EXPECT_EQ(bytes(100'000), bytes(10'000'000));
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, SplitFacts, testing::ValuesIn(test::tested_isas()), isa_name);

}  // namespace
}  // namespace mala::test
