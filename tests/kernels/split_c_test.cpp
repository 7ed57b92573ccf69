// The C interface of the two halves: the same numbers as the C++ one, shards that sum to the whole,
// and a code and a message for every misuse.
#include "mala/kernels/split_c.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "mala/kernels/split.h"
#include "tests/kernels/attention_c_call.h"

namespace mala {
namespace {

// A whole call of the C interface, cut in two. Its own state is the sum over the keys.
template <typename T>
struct SplitCall {
  Call<T> whole;
  std::vector<int64_t> counts;
  std::vector<Compute<T>> state, state_gradient;
  mala_keys_inputs keys{};
  mala_queries_inputs queries{};
  mala_keys_gradients key_gradients{};
  mala_queries_gradients query_gradients{};
  std::vector<std::byte> scratch;

  explicit SplitCall(const Shape& shape = {}) : whole(shape) {
    const mala_attention_inputs& in = whole.inputs;
    keys = {sizeof keys, in.dtype, in.k, in.v, in.key_counts, in.k_offsets, in.k_widths};
    queries = {sizeof queries, in.dtype, in.q, in.local, in.gate, in.q_offsets, in.q_widths};
    const Lengths& lengths = shape.lengths;
    counts.assign(lengths.key_counts.begin(), lengths.key_counts.end());
    for (size_t i = 1; i < lengths.k_offsets.size(); ++i) {
      counts.push_back(lengths.k_offsets[i] - lengths.k_offsets[i - 1]);
    }
    if (counts.empty()) counts.assign(shape.batch, shape.keys);
    int64_t bytes = 0, queries_bytes = 0;
    EXPECT_EQ(mala_keys_state_bytes(&keys, &bytes), MALA_OK) << mala_last_error();
    state.resize(bytes / sizeof(Compute<T>));
    state_gradient.resize(state.size());
    const mala_attention_gradients& g = whole.gradients;
    key_gradients = {sizeof key_gradients, g.k, g.v};
    query_gradients = {sizeof query_gradients, g.q, g.local, g.gate, buffer(state_gradient)};
    EXPECT_EQ(mala_keys_scratch_bytes(&keys, &whole.options, &bytes), MALA_OK);
    const mala_total_state all = total();
    EXPECT_EQ(mala_queries_scratch_bytes(&queries, &whole.options, &all, Call<T>::kValueDim,
                                         &queries_bytes),
              MALA_OK)
        << mala_last_error();
    scratch.resize(std::max(bytes, queries_bytes));
  }

  static mala_buffer buffer(std::vector<Compute<T>>& x) {
    return {x.data(), static_cast<int64_t>(x.size() * sizeof(Compute<T>))};
  }
  mala_buffer scratch_buffer() { return {scratch.data(), static_cast<int64_t>(scratch.size())}; }
  mala_total_state total() {
    return {sizeof(mala_total_state),
            buffer(state),
            {counts.data(), static_cast<int64_t>(counts.size())},
            whole.shape.kv_heads};
  }

  mala_status sum_keys() {
    return mala_keys_forward(&keys, &whole.options, buffer(state), scratch_buffer());
  }
  mala_status apply() {
    const mala_total_state all = total();
    const mala_tensor out = whole.out_tensor();
    return mala_queries_forward(&queries, &whole.options, &all, &out, scratch_buffer());
  }
  mala_status apply_backward() {
    const mala_total_state all = total();
    const mala_tensor from = whole.out_gradient_tensor();
    return mala_queries_backward(&queries, &whole.options, &all, &from, &query_gradients,
                                 scratch_buffer());
  }
  mala_status keys_backward() {
    return mala_keys_backward(&keys, &whole.options, buffer(state_gradient), &key_gradients,
                              scratch_buffer());
  }

  void run_all() {
    ASSERT_EQ(sum_keys(), MALA_OK) << mala_last_error();
    ASSERT_EQ(apply(), MALA_OK) << mala_last_error();
    ASSERT_EQ(apply_backward(), MALA_OK) << mala_last_error();
    ASSERT_EQ(keys_backward(), MALA_OK) << mala_last_error();
  }

  void run_cpp(const AttentionOptions& options) {
    const auto view = Call<T>::view;
    const Lengths& lengths = whole.shape.lengths;
    const KeysInputs<T> k{view(keys.k), view(keys.v), lengths};
    const QueriesInputs<T> q{view(queries.q), view(queries.local), view(queries.gate), lengths};
    const TotalState<T> all{state, counts, whole.shape.kv_heads};
    keys_forward<T>(k, options, state, scratch);
    queries_forward<T>(q, options, all, view(whole.out_tensor()), scratch);
    queries_backward<T>(q, options, all, view(whole.out_gradient_tensor()),
                        {.q = view(query_gradients.q),
                         .local = view(query_gradients.local),
                         .gate = view(query_gradients.gate)},
                        state_gradient, scratch);
    mala::keys_backward<T>(k, options, state_gradient,
                           {.k = view(key_gradients.k), .v = view(key_gradients.v)}, scratch);
  }
};

template <typename T>
void expect_same(const mala_options& c_options, const AttentionOptions& options,
                 const Shape& shape = {}) {
  SplitCall<T> c(shape), cpp(shape);
  c.whole.options = c_options;
  c.run_all();
  cpp.run_cpp(options);
  EXPECT_EQ(c.state, cpp.state);
  EXPECT_EQ(c.state_gradient, cpp.state_gradient);
  EXPECT_EQ(c.whole.out, cpp.whole.out);
  EXPECT_EQ(c.whole.dq, cpp.whole.dq);
  EXPECT_EQ(c.whole.dk, cpp.whole.dk);
  EXPECT_EQ(c.whole.dv, cpp.whole.dv);
  EXPECT_EQ(c.whole.dlocal, cpp.whole.dlocal);
  EXPECT_EQ(c.whole.dgate, cpp.whole.dgate);
}

TEST(SplitC, EveryTypeGivesTheNumbersOfCpp) {
  expect_same<float>(mala_options_default(), {});
  expect_same<double>(mala_options_default(), {});
  expect_same<BFloat16>(mala_options_default(), {});
  expect_same<Float16>(mala_options_default(), {});
}

TEST(SplitC, OptionsAndLengthsArrive) {
  mala_options c_options = mala_options_default();
  c_options.rule = MALA_RULE_LINEAR;
  c_options.norm = MALA_NORM_BALANCED;
  c_options.q_rope.kind = c_options.k_rope.kind = MALA_ROPE_GRID;
  AttentionOptions options;
  options.rule = Rule::kLinear;
  options.norm = Norm::kBalanced;
  options.q_rope = options.k_rope = Rope::grid(0);  // the widths stand in the lengths
  const std::vector<int64_t> q_offsets = {0, 4, 5, 11}, k_offsets = {0, 1, 9, 13};
  const std::vector<int64_t> q_widths = {2, 1, 3}, k_widths = {1, 4, 2}, counts = {7, 2};
  const Lengths packed{
      .q_offsets = q_offsets, .k_offsets = k_offsets, .q_widths = q_widths, .k_widths = k_widths};
  // The whole call, which sizes the memory, has no rope of its own: widths may stay unused.
  expect_same<double>(
      c_options, options,
      {.batch = 1, .heads = 6, .kv_heads = 2, .queries = 11, .keys = 13, .lengths = packed});

  c_options.q_rope.kind = c_options.k_rope.kind = MALA_ROPE_LINE;
  options.q_rope = options.k_rope = Rope::line();
  expect_same<float>(c_options, options, {.lengths = {.key_counts = counts}});
}

double largest_difference(const std::vector<double>& x, const std::vector<double>& y) {
  double most = 0;
  for (size_t i = 0; i < x.size(); ++i) most = std::max(most, std::abs(x[i] - y[i]));
  return most;
}

// Rounding of sums of a few dozen terms around one, in double.
constexpr double kTolerance = 1e-12;

// The keys of one call by two callers: their states add to its state, and the sum of the gradients
// of the state gives each its own keys' gradients.
TEST(SplitC, TwoShardsGiveTheWhole) {
  SplitCall<double> at_once, shards;
  at_once.run_all();
  const std::vector<int64_t> cuts = {0, 3, 7};
  std::vector<double> sum(shards.state.size());
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    for (mala_tensor* x : {&shards.keys.k, &shards.keys.v}) {
      x->data = static_cast<double*>(x->data) + (i ? cuts[i] - cuts[i - 1] : 0) * x->strides[2];
      x->sizes[2] = cuts[i + 1] - cuts[i];
    }
    ASSERT_EQ(shards.sum_keys(), MALA_OK) << mala_last_error();
    for (size_t j = 0; j < sum.size(); ++j) sum[j] += shards.state[j];
  }
  EXPECT_LT(largest_difference(sum, at_once.state), kTolerance);
  shards.state = sum;
  ASSERT_EQ(shards.apply(), MALA_OK) << mala_last_error();
  EXPECT_LT(largest_difference(shards.whole.out, at_once.whole.out), kTolerance);

  Call<double> whole;
  ASSERT_EQ(whole.forward(), MALA_OK) << mala_last_error();
  ASSERT_EQ(whole.backward(), MALA_OK) << mala_last_error();
  EXPECT_LT(largest_difference(at_once.whole.out, whole.out), kTolerance);
  EXPECT_LT(largest_difference(at_once.whole.dq, whole.dq), kTolerance);
  EXPECT_LT(largest_difference(at_once.whole.dk, whole.dk), kTolerance);
  EXPECT_LT(largest_difference(at_once.whole.dv, whole.dv), kTolerance);
}

// Programs built against this version rely on these numbers: changing one breaks them.
TEST(SplitC, LayoutStaysAsItIs) {
  EXPECT_EQ(offsetof(mala_keys_inputs, key_counts), 160u);
  EXPECT_GE(sizeof(mala_keys_inputs), 208u);
  EXPECT_EQ(offsetof(mala_keys_gradients, v), 80u);
  EXPECT_GE(sizeof(mala_keys_gradients), 152u);
  EXPECT_EQ(offsetof(mala_queries_inputs, q_offsets), 232u);
  EXPECT_GE(sizeof(mala_queries_inputs), 264u);
  EXPECT_EQ(offsetof(mala_total_state, heads), 40u);
  EXPECT_GE(sizeof(mala_total_state), 48u);
  EXPECT_EQ(offsetof(mala_queries_gradients, state), 224u);
  EXPECT_GE(sizeof(mala_queries_gradients), 240u);
}

void expect_says(mala_status status, const std::string& text) {
  EXPECT_EQ(status, MALA_INVALID_ARGUMENT) << text;
  EXPECT_TRUE(std::strstr(mala_last_error(), text.c_str())) << mala_last_error();
}

TEST(SplitC, RefusesWhatDoesNotFit) {
  SplitCall<float> call;
  const std::vector<float> out = call.whole.out;
  call.counts[1] = 0;
  expect_says(call.apply(), "[mala_queries_forward] the state's key_counts[1] is 0");
  call.counts = {7};
  expect_says(call.apply(), "[mala_queries_forward] the state's key_counts has 1 numbers");
  call.counts = {7, 7};
  call.state.pop_back();
  expect_says(call.apply(), "[mala_queries_forward] state has 1007 numbers but 1008");
  expect_says(call.sum_keys(), "[mala_keys_forward] state has 1007 numbers but 1008");
  call.state.push_back(0);
  call.whole.shape.kv_heads = 2;
  expect_says(call.apply(), "[mala_queries_forward] the state has 2 heads but q has 3");
  EXPECT_EQ(call.whole.out, out);
  call.keys.v.sizes[2] = 6;
  expect_says(call.sum_keys(), "[mala_keys_forward] v has 6 tokens but k has 7");
  call.keys.dtype = 9;
  expect_says(call.keys_backward(), "[mala_keys_backward] inputs.dtype is 9; use MALA_FLOAT32");
  call.queries.struct_size = 1;
  expect_says(call.apply_backward(), "[mala_queries_backward] inputs.struct_size is 1, 264");
}

TEST(SplitC, RefusesNullPointersInEveryPlace) {
  SplitCall<float> call;
  const mala_options* options = &call.whole.options;
  const mala_buffer state = call.buffer(call.state), scratch = call.scratch_buffer();
  const mala_total_state all = call.total();
  const mala_tensor out = call.whole.out_tensor();
  int64_t bytes = 0;
  for (const mala_status status :
       {mala_keys_state_bytes(nullptr, &bytes), mala_keys_state_bytes(&call.keys, nullptr),
        mala_keys_scratch_bytes(&call.keys, options, nullptr),
        mala_keys_scratch_bytes(&call.keys, nullptr, &bytes),
        mala_queries_scratch_bytes(&call.queries, options, nullptr, 8, &bytes),
        mala_queries_scratch_bytes(&call.queries, options, &all, 8, nullptr),
        mala_keys_forward(nullptr, options, state, scratch),
        mala_keys_forward(&call.keys, options, {nullptr, state.bytes}, scratch),
        mala_queries_forward(nullptr, options, &all, &out, scratch),
        mala_queries_forward(&call.queries, options, nullptr, &out, scratch),
        mala_queries_forward(&call.queries, options, &all, nullptr, scratch),
        mala_queries_backward(&call.queries, options, &all, &out, nullptr, scratch),
        mala_keys_backward(&call.keys, options, state, nullptr, scratch)}) {
    EXPECT_EQ(status, MALA_INVALID_ARGUMENT);
  }
}

}  // namespace
}  // namespace mala
