// What is promised of the GPU's kernels, to the letter: they are at most twice as far from the
// definition as the formula done in float32 and rounded once.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mala/kernels/cuda/check.h"
#include "tests/kernels/cuda_attention_run.h"
#include "tests/kernels/cuda_causal_run.h"

namespace mala::test {
namespace {

// The promise. There is no allowance beside it: where float32 makes no error at all, as in the
// gradient of `local`, neither may the GPU.
constexpr double kMostTimes = 2;

// What is known to break it, in gradients of q, k and v. A gradient times a gate is rounded to two
// bytes before it is used, except in the causal kernels for all: as large an error as that of
// rounding at the end, which makes 1.4 times together, or more where the sum of all of them happens
// to be small: 2.15 were seen in bfloat16, 1.74 in float16. In float32 it is no other than that of
// the formula.
constexpr double kMostTimesWithGate = 3;

// Numbers that are hard on sums: values whose mean is so many times their spread, and queries and
// keys that are all far below zero, so that features are tiny.
struct Data {
  double value_mean = 0, shift = 0;
};
constexpr Data kUsual{}, kFarValues{.value_mean = 100};
constexpr Data kOthers[] = {kUsual, {.value_mean = 10}, {.shift = -8}, {.shift = -15}};
constexpr double kSpread = 0.577;  // of values, which lie in an interval of two

// Of the same type still.
template <typename T>
void move(Tensor<T>& x, double by) {
  std::vector<double> values = x.values();
  for (double& value : values) value += by;
  x.set_values(values);
}

template <typename T>
void make(const Data& data, AttentionProblem<T>& problem) {
  move(problem.q, data.shift);
  move(problem.k, data.shift);
  move(problem.v, data.value_mean * kSpread);
}

template <typename T>
void copy(const AttentionProblem<T>& from, AttentionProblem<float>& to) {
  to.q.set_values(from.q.values());
  to.k.set_values(from.k.values());
  to.v.set_values(from.v.values());
  to.local.set_values(from.local.values());
  to.gate.set_values(from.gate.values());
  to.out_gradient.set_values(from.out_gradient.values());
}

double rms_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  double sum = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = actual[i] - expected[i];
    sum += error * error;
  }
  return std::sqrt(sum / static_cast<double>(expected.size()));
}

// Of one case: what the GPU has, what the CPU's kernels have in float32, and the definition.
template <typename T>
struct Compared {
  AttentionResults actual, single, expected;

  // Fails the running test where the GPU breaks the promise; gradients of q, k and v may be `most`
  // times as far off.
  void expect(double most) const {
    expect_part("out", &AttentionResults::out, kMostTimes);
    expect_part("the gradient of q", &AttentionResults::q, most);
    expect_part("the gradient of k", &AttentionResults::k, most);
    expect_part("the gradient of v", &AttentionResults::v, most);
    expect_part("the gradient of local", &AttentionResults::local, kMostTimes);
    expect_part("the gradient of gate", &AttentionResults::gate, kMostTimes);
  }

 private:
  void expect_part(const char* what, std::vector<double> AttentionResults::*part,
                   double most) const {
    if ((expected.*part).empty()) return;
    ASSERT_EQ((actual.*part).size(), (expected.*part).size()) << what;
    std::vector<double> rounded_once = single.*part;
    for (double& x : rounded_once) x = to_float(rounded<T>(x));
    const double error = rms_error(actual.*part, expected.*part);
    const double of_float32 = rms_error(rounded_once, expected.*part);
    EXPECT_LE(error, most * of_float32)
        << what << " is " << error / of_float32 << " times as far off as float32 rounded once";
  }
};

// Cases go round all devices. Where they are emulated, these differ in how many parts a head falls
// into, and in how many tiles a part has.
template <typename T>
class GpuAccuracy : public GpuTest {
 public:
  static constexpr bool kIsBFloat16 = std::is_same_v<T, BFloat16>;

  void TearDown() override { cudaSetDevice(0); }

  // Where the next call goes.
  void use_device(int index) { next_ = index; }

  void check(const AttentionCase& c, const Data& data) {
    use_next_device();
    AttentionProblem<T> problem(c);
    make(data, problem);
    AttentionProblem<float> single(c);
    copy(problem, single);
    SCOPED_TRACE(str("values' mean ", data.value_mean, ", shift ", data.shift, ": ", describe(c)));
    Compared<T>{run_on_gpu(problem), run_kernels(single), run_reference(problem)}.expect(
        c.gate && sizeof(T) == 2 ? kMostTimesWithGate : kMostTimes);
  }
  void check(const CausalCase& c, const Data& data) {
    use_next_device();
    CausalProblem<T> problem(c);
    make(data, problem.tokens);
    CausalProblem<float> single(c);
    copy(problem.tokens, single.tokens);
    SCOPED_TRACE(str("values' mean ", data.value_mean, ", shift ", data.shift, ": ", describe(c)));
    const AttentionOptions& options = c.tokens.options;
    const bool by_warpgroups =
        kIsBFloat16 && c.tokens.dim == 64 && options.q_rope.kind != Rope::Kind::kGrid;
    compare(problem, single)
        .expect(c.tokens.gate && by_warpgroups ? kMostTimesWithGate : kMostTimes);
  }
  static Compared<T> compare(const CausalProblem<T>& problem, const CausalProblem<float>& single) {
    return {run_on_gpu(problem).tokens, run_kernels(single).tokens, run_reference(problem).tokens};
  }

  void use_next_device() {
    const int count = static_cast<int>(gpu::devices().size());
    MALA_CUDA_CHECK(cudaSetDevice(next_++ % count));
  }
  int next_ = 0;
};

TYPED_TEST_SUITE(GpuAccuracy, DeviceTypes, TypeNames);

constexpr int64_t kWidth = 14;  // of an image

// In bfloat16, heads of 24 numbers go to the kernels for all, the others to warpgroups where these
// know them. Other types have no kernels of their own for heads of 96, and those of 128 go with
// them.
template <typename T>
std::vector<int64_t> dims() {
  if (std::is_same_v<T, BFloat16>) return {24, 64, 96, 128};
  return {24, 64, 96};
}

// Calls check(call) for every norm, kind of turns and size of head, with the usual eps: features
// are positive and many pairs hardly turn over so few tokens, so that r is never below 0.3 s, far
// from the pole of the printed norm.
template <typename T, class Check>
void for_each_call(int64_t tokens, Check check) {
  for (const int64_t dim : dims<T>()) {
    for (const Rope& rope : {Rope::none(), Rope::line(), Rope::grid(kWidth)}) {
      for (const Norm norm : kNorms) {
        // No fewer numbers, so that those that happen to be round count little.
        const int64_t heads = dim < 64 ? 3 : 1;
        AttentionCase c{.heads = heads, .queries = tokens, .keys = tokens, .dim = dim};
        c.value_dim = dim;
        c.options = options_of(Rule::kMala, norm);
        c.options.q_rope = c.options.k_rope = rope;
        check(c);
      }
    }
  }
}

CausalCase causal(const AttentionCase& tokens) {
  CausalCase c;
  c.tokens = tokens;
  c.after = c.before_gradient = false;
  return c;
}

// Of each call, far values with one tail and other numbers with the next.
TYPED_TEST(GpuAccuracy, Bidirectional) {
  int next = 0;
  for_each_call<TypeParam>(150, [&](AttentionCase c) {
    c.set_tail(next % 4);
    this->check(c, kFarValues);
    c.set_tail((next + 1) % 4);
    this->check(c, kOthers[next++ / 2 % 4]);
  });
}

TYPED_TEST(GpuAccuracy, Causal) {
  int next = 0;
  for_each_call<TypeParam>(150, [&](AttentionCase c) {
    c.set_tail(next % 4);
    this->check(causal(c), kFarValues);
    c.set_tail((next + 1) % 4);
    this->check(causal(c), kOthers[next++ / 2 % 4]);
  });
}

// In one head of 64, where nothing turns.
CausalCase text(int64_t tokens, Norm norm) {
  CausalCase c = CausalCase::of(tokens, 64, 64);
  c.after = c.before_gradient = false;
  c.tokens.options = options_of(Rule::kMala, norm);
  return c;
}

// A text whose first part has many tiles, on a device that is small enough.
TYPED_TEST(GpuAccuracy, LongFirstPart) {
  for (const Norm norm : {Norm::kPublished, Norm::kBalanced}) {
    this->use_device(1);
    this->check(text(900, norm), kFarValues);
  }
}

// Without turns, errors of sums over values show as often as r says, which is some 9 here.
TYPED_TEST(GpuAccuracy, ManyParts) {
  for (const Data& data : {kUsual, kFarValues}) {
    this->use_device(2);
    this->check(text(2000, Norm::kBalanced), data);
  }
}

// In sums over many tiles, what tensor cores cut off adds up: far values have to be about a centre
// in all of them.
TYPED_TEST(GpuAccuracy, ManyTilesOfFarValues) {
  this->use_device(1);
  this->check(text(4000, Norm::kBalanced), kFarValues);
}

// A text that begins with far values: sums that were taken about their mean for ever had made the
// output five times as far off in bfloat16, where nothing turns.
TYPED_TEST(GpuAccuracy, AMeanThatMoves) {
  for (const Norm norm : {Norm::kPublished, Norm::kBalanced}) {
    for (const Rope& rope : {Rope::none(), Rope::line()}) {
      CausalCase c = text(1200, norm);
      c.tokens.options.q_rope = c.tokens.options.k_rope = rope;
      CausalProblem<TypeParam> problem(c);
      std::vector<double> values = problem.tokens.v.values();
      for (size_t i = 0; i < 64 * 64; ++i) values[i] += 100 * kSpread;
      problem.tokens.v.set_values(values);
      CausalProblem<float> single(c);
      copy(problem.tokens, single.tokens);
      SCOPED_TRACE(describe(c));
      this->use_next_device();
      this->compare(problem, single).expect(kMostTimes);
    }
  }
}

TYPED_TEST(GpuAccuracy, PublishedWithoutTurnsAfterAState) {
  for (const int64_t dim : {24, 64, 96}) {
    CausalCase c = CausalCase::of(150, dim, dim);
    c.before_gradient = false;
    c.tokens.options = options_of(Rule::kMala, Norm::kPublished);
    CausalProblem<TypeParam> earlier(c);
    make(kFarValues, earlier.tokens);
    c.tokens.seed = 2;
    c.before = {c.tokens.keys};
    c.after = false;
    CausalProblem<TypeParam> problem(c);
    make(kFarValues, problem.tokens);
    CausalProblem<float> single(c);
    copy(problem.tokens, single.tokens);
    problem.sums = single.sums = run_reference(earlier, Pass::kForward).after;
    SCOPED_TRACE(describe(c));
    this->compare(problem, single).expect(kMostTimes);
  }
}

}  // namespace
}  // namespace mala::test
