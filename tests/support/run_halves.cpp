// Several callers of the halves: what each does, and what they exchange.
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/expected_of.h"
#include "tests/support/guarded.h"
#include "tests/support/split_problem.h"

namespace mala::test {
namespace {

// One caller with its outputs, each between guards.
template <typename T>
class Caller {
  using C = Compute<T>;

 public:
  explicit Caller(const Shard<T>& shard)
      : shard_(shard),
        before_(shard.problem),
        out_(shard.problem.out_shape(), about().layouts[kOut], Role::kOutput, about().misalign),
        gradients_(shard.problem),
        state_(state_size(), about().misalign),
        state_gradient_(state_size(), about().misalign) {}

  std::span<const C> sum_keys() {
    PoisonedMemory<std::byte> scratch(keys_scratch_bytes(shard_.keys_inputs(), options()),
                                      about().misalign);
    keys_forward<T>(shard_.keys_inputs(), options(), state_.span(), scratch.span());
    expect_guards(scratch);
    return state_.span();
  }

  void apply_queries(const TotalState<T>& total) {
    PoisonedMemory<std::byte> scratch = queries_scratch(total);
    queries_forward<T>(shard_.queries_inputs(), options(), total, out_.view(), scratch.span());
    expect_guards(scratch);
  }

  std::span<const C> query_gradients(const TotalState<T>& total) {
    PoisonedMemory<std::byte> scratch = queries_scratch(total);
    AttentionGradients<T> to = gradients_.views();
    to.k = to.v = {};
    queries_backward<T>(shard_.queries_inputs(), options(), total,
                        shard_.problem.out_gradient.view(), to, state_gradient_.span(),
                        scratch.span());
    expect_guards(scratch);
    return state_gradient_.span();
  }

  void key_gradients(std::span<const C> total) {
    PoisonedMemory<std::byte> scratch(keys_scratch_bytes(shard_.keys_inputs(), options()),
                                      about().misalign);
    const AttentionGradients<T> all = gradients_.views();
    keys_backward<T>(shard_.keys_inputs(), options(), total, {.k = all.k, .v = all.v},
                     scratch.span());
    expect_guards(scratch);
  }

  // Its tokens' part of the results of all.
  void put_into(AttentionResults& all, const AttentionProblem<T>& whole) const {
    const AttentionResults own = gradients_.with(out_.values());
    put(own.out, shard_.queries, whole.out_shape(), all.out);
    put(own.q, shard_.queries, whole.q.shape(), all.q);
    put(own.k, shard_.keys, whole.k.shape(), all.k);
    put(own.v, shard_.keys, whole.v.shape(), all.v);
    put(own.local, shard_.queries, whole.local.shape(), all.local);
    put(own.gate, shard_.queries, whole.gate.shape(), all.gate);
  }

 private:
  const AttentionCase& about() const { return shard_.problem.about; }
  const AttentionOptions& options() const { return shard_.problem.options; }
  int64_t state_size() const {
    return attention_state_size(about().sequences(), about().kv_heads(), about().dim,
                                about().value_dim);
  }
  PoisonedMemory<std::byte> queries_scratch(const TotalState<T>& total) const {
    return {queries_scratch_bytes(shard_.queries_inputs(), options(), total, about().value_dim),
            about().misalign};
  }

  void expect_guards(const PoisonedMemory<std::byte>& scratch) const {
    EXPECT_TRUE(scratch.guards_intact()) << "memory beside scratch was written";
    EXPECT_TRUE(out_.guards_intact()) << "memory beside out was written";
    EXPECT_TRUE(gradients_.guards_intact()) << "memory beside a gradient was written";
    EXPECT_TRUE(state_.guards_intact()) << "memory beside the state was written";
    EXPECT_TRUE(state_gradient_.guards_intact()) << "memory beside its gradient was written";
    EXPECT_TRUE(before_.unchanged()) << "an input was written";
  }

  static void put(const std::vector<double>& own, const std::vector<int64_t>& tokens,
                  const Shape& shape, std::vector<double>& all) {
    if (own.empty()) return;
    all.resize(shape.size());
    auto from = own.begin();
    for (int64_t head = 0; head < shape.batch * shape.heads; ++head)
      for (const int64_t token : tokens) {
        std::copy_n(from, shape.dim, all.begin() + (head * shape.tokens + token) * shape.dim);
        from += shape.dim;
      }
  }

  const Shard<T>& shard_;
  InputsCopy<T> before_;
  Tensor<T> out_;
  GuardedGradients<T> gradients_;
  PoisonedMemory<C> state_, state_gradient_;
};

template <typename Number>
void add(std::span<const Number> own, std::vector<Number>& total) {
  total.resize(own.size());
  for (size_t i = 0; i < own.size(); ++i) total[i] += own[i];
}

template <typename C>
std::vector<double> doubles(const std::vector<C>& x) {
  return {x.begin(), x.end()};
}

}  // namespace

template <typename T>
SplitResults run_halves(const SplitProblem<T>& problem) {
  SCOPED_TRACE(describe(problem.about));
  std::vector<std::unique_ptr<Caller<T>>> callers;
  std::vector<Compute<T>> state, state_gradient;
  std::vector<int64_t> counts;
  for (const auto& shard : problem.shards) {
    callers.push_back(std::make_unique<Caller<T>>(*shard));
    add(callers.back()->sum_keys(), state);
    add<int64_t>(shard->key_counts(), counts);
  }
  const TotalState<T> total{state, counts, problem.about.whole.kv_heads()};
  for (const auto& caller : callers) {
    caller->apply_queries(total);
    add(caller->query_gradients(total), state_gradient);
  }
  SplitResults results{.state = doubles(state), .state_gradient = doubles(state_gradient)};
  for (const auto& caller : callers) {
    caller->key_gradients(state_gradient);
    caller->put_into(results.tokens, problem.whole);
  }
  return results;
}

bool same_bits(const SplitResults& x, const SplitResults& y) {
  return same_bits(x.tokens, y.tokens) && same_bits(x.state, y.state) &&
         same_bits(x.state_gradient, y.state_gradient);
}

template <typename T>
void check_case(const SplitCase& c) {
  SplitCase conditioned = c;
  conditioned.whole = well_conditioned(c.whole);
  const SplitProblem<T> problem(conditioned);
  SCOPED_TRACE(describe(problem.about));
  expect_close<T>(run_halves(problem).tokens, expected_of<T>(problem.whole), problem.about.whole);
}

#define MALA_INSTANTIATE(T)                                 \
  template SplitResults run_halves(const SplitProblem<T>&); \
  template void check_case<T>(const SplitCase&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::test
