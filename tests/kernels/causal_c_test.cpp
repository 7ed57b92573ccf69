// The C interface of the causal form: the same numbers as the C++ one, and a code and a message
// for every misuse.
#include "mala/kernels/causal_c.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "mala/kernels/causal.h"
#include "tests/kernels/attention_c_call.h"

namespace mala {
namespace {

// Sums and counts with memory of their own.
struct State {
  std::vector<double> sums;
  std::vector<int64_t> counts;

  mala_causal_state c() {
    return {{sums.data(), static_cast<int64_t>(sums.size() * sizeof(double))},
            {counts.data(), static_cast<int64_t>(counts.size() * sizeof(int64_t))}};
  }
  bool operator==(const State&) const = default;
};

mala_buffer buffer(std::vector<double>& x) {
  return {x.data(), static_cast<int64_t>(x.size() * sizeof(double))};
}

// Tokens, a state before that earlier tokens could have left, and room for all results.
template <typename T>
struct CausalCall {
  Call<T> tokens;
  State before, after;
  std::vector<double> after_gradient, before_gradient;
  mala_causal_output_gradients from{};
  mala_causal_input_gradients to{};
  std::vector<std::byte> forward_scratch, backward_scratch;

  explicit CausalCall(const Shape& shape = {.queries = 6, .keys = 6}) : tokens(shape) {
    int64_t sums = 0, counts = 0;
    EXPECT_EQ(mala_causal_state_bytes(&tokens.inputs, &sums, &counts), MALA_OK)
        << mala_last_error();
    const int64_t elements = sums / static_cast<int64_t>(sizeof(double));
    before.sums = numbers<double>(elements, 11);
    for (double& x : before.sums) x += 4;  // s of a text is positive
    before.counts.assign(counts / sizeof(int64_t), 5);
    after = {std::vector<double>(elements), std::vector<int64_t>(before.counts.size())};
    after_gradient = numbers<double>(elements, 12);
    before_gradient.resize(elements);
    const mala_attention_gradients& g = tokens.gradients;
    from = {sizeof from, tokens.out_gradient_tensor(), buffer(after_gradient)};
    to = {sizeof to, g.q, g.k, g.v, g.local, g.gate, buffer(before_gradient)};
    forward_scratch.resize(scratch_bytes(mala_causal_forward_scratch_bytes));
    backward_scratch.resize(scratch_bytes(mala_causal_backward_scratch_bytes));
  }

  size_t scratch_bytes(decltype(mala_causal_forward_scratch_bytes) function) {
    const mala_causal_state state = before.c();
    int64_t bytes = 0;
    EXPECT_EQ(function(&tokens.inputs, &tokens.options, &state, &bytes), MALA_OK)
        << mala_last_error();
    return static_cast<size_t>(bytes);
  }

  mala_status forward() {
    const mala_causal_state state = before.c(), left = after.c();
    const mala_tensor out = tokens.out_tensor();
    return mala_causal_forward(&tokens.inputs, &tokens.options, &state, &out, &left,
                               bytes_of(forward_scratch));
  }
  mala_status backward() {
    const mala_causal_state state = before.c();
    return mala_causal_backward(&tokens.inputs, &tokens.options, &state, &from, &to,
                                bytes_of(backward_scratch));
  }
  mala_status step() {
    const mala_causal_state state = before.c();
    const mala_tensor out = tokens.out_tensor();
    return mala_causal_step(&tokens.inputs, &tokens.options, &out, &state);
  }

  static mala_buffer bytes_of(std::vector<std::byte>& x) {
    return {x.data(), static_cast<int64_t>(x.size())};
  }

  AttentionInputs<T> cpp_tokens() const {
    const auto view = Call<T>::view;
    const mala_attention_inputs& in = tokens.inputs;
    return {view(in.q),     view(in.k),    view(in.v),
            view(in.local), view(in.gate), tokens.shape.lengths};
  }
  CausalInputs<T> cpp() const { return {cpp_tokens(), {before.sums, before.counts}}; }

  void run_cpp(const AttentionOptions& options) {
    const auto view = Call<T>::view;
    causal_forward<T>(cpp(), options, view(tokens.out_tensor()), {after.sums, after.counts},
                      forward_scratch);
    causal_backward<T>(
        cpp(), options, {view(from.out), after_gradient},
        {{view(to.q), view(to.k), view(to.v), view(to.local), view(to.gate)}, before_gradient},
        backward_scratch);
  }
};

// Runs both ways and wants the same bits: the C interface adds nothing to the arithmetic.
template <typename T>
void expect_same(const mala_options& c_options, const AttentionOptions& options,
                 const Shape& shape = {.queries = 6, .keys = 6}) {
  CausalCall<T> c(shape), cpp(shape);
  c.tokens.options = c_options;
  ASSERT_EQ(c.forward(), MALA_OK) << mala_last_error();
  ASSERT_EQ(c.backward(), MALA_OK) << mala_last_error();
  cpp.run_cpp(options);
  EXPECT_EQ(c.tokens.out, cpp.tokens.out);
  EXPECT_EQ(c.after, cpp.after);
  EXPECT_EQ(c.tokens.dq, cpp.tokens.dq);
  EXPECT_EQ(c.tokens.dk, cpp.tokens.dk);
  EXPECT_EQ(c.tokens.dv, cpp.tokens.dv);
  EXPECT_EQ(c.tokens.dlocal, cpp.tokens.dlocal);
  EXPECT_EQ(c.tokens.dgate, cpp.tokens.dgate);
  EXPECT_EQ(c.before_gradient, cpp.before_gradient);
}

TEST(CausalC, EveryTypeGivesTheNumbersOfCpp) {
  expect_same<float>(mala_options_default(), {});
  expect_same<double>(mala_options_default(), {});
  expect_same<BFloat16>(mala_options_default(), {});
  expect_same<Float16>(mala_options_default(), {});
}

TEST(CausalC, NoNormIsTheBalancedOne) {
  mala_options options = mala_options_default();
  options.q_rope.kind = options.k_rope.kind = MALA_ROPE_LINE;
  AttentionOptions balanced;
  balanced.norm = Norm::kBalanced;
  balanced.q_rope = balanced.k_rope = Rope::line();
  expect_same<float>(options, balanced);
  options.rule = MALA_RULE_LINEAR;
  AttentionOptions published = balanced;
  published.rule = Rule::kLinear;
  published.norm = Norm::kPublished;
  expect_same<float>(options, published);
}

TEST(CausalC, LengthsAndGroupsArrive) {
  const std::vector<int64_t> counts = {6, 2}, offsets = {0, 4, 5, 11};
  mala_options options = mala_options_default();
  options.norm = MALA_NORM_PRINTED;
  AttentionOptions printed;
  printed.norm = Norm::kPrinted;
  expect_same<double>(
      options, printed,
      {.heads = 6, .kv_heads = 2, .queries = 6, .keys = 6, .lengths = {.key_counts = counts}});
  const Shape packed{.batch = 1,
                     .queries = 11,
                     .keys = 11,
                     .lengths = {.q_offsets = offsets, .k_offsets = offsets}};
  expect_same<double>(options, printed, packed);

  CausalCall<double> both(packed), queries_alone(packed);
  queries_alone.tokens.inputs.k_offsets = {};
  ASSERT_EQ(both.forward(), MALA_OK) << mala_last_error();
  ASSERT_EQ(queries_alone.forward(), MALA_OK) << mala_last_error();
  EXPECT_EQ(queries_alone.tokens.out, both.tokens.out);
  EXPECT_EQ(queries_alone.after.counts, (std::vector<int64_t>{9, 6, 11}));
}

TEST(CausalC, StatesMayBeLeftOut) {
  CausalCall<double> with, without;
  std::fill(with.before.sums.begin(), with.before.sums.end(), 0.0);
  std::fill(with.before.counts.begin(), with.before.counts.end(), 0);
  ASSERT_EQ(with.forward(), MALA_OK) << mala_last_error();
  const mala_tensor out = without.tokens.out_tensor();
  const mala_buffer scratch = without.bytes_of(without.forward_scratch);
  const mala_causal_state absent{}, left = without.after.c();
  const mala_attention_inputs* in = &without.tokens.inputs;
  const mala_options* options = &without.tokens.options;
  ASSERT_EQ(mala_causal_forward(in, options, nullptr, &out, nullptr, scratch), MALA_OK);
  EXPECT_EQ(without.tokens.out, with.tokens.out);
  EXPECT_EQ(without.after.sums, std::vector<double>(without.after.sums.size()));
  ASSERT_EQ(mala_causal_forward(in, options, &absent, &out, &left, scratch), MALA_OK);
  EXPECT_EQ(without.after, with.after);

  without.from.after = without.to.before = {};
  ASSERT_EQ(mala_causal_backward(in, options, nullptr, &without.from, &without.to,
                                 without.bytes_of(without.backward_scratch)),
            MALA_OK)
      << mala_last_error();
  std::fill(with.after_gradient.begin(), with.after_gradient.end(), 0.0);
  ASSERT_EQ(with.backward(), MALA_OK) << mala_last_error();
  EXPECT_EQ(without.tokens.dv, with.tokens.dv);
}

TEST(CausalC, StateMayBeUpdatedWhereItLies) {
  CausalCall<float> apart, in_place;
  ASSERT_EQ(apart.forward(), MALA_OK) << mala_last_error();
  const mala_causal_state state = in_place.before.c();
  const mala_tensor out = in_place.tokens.out_tensor();
  ASSERT_EQ(mala_causal_forward(&in_place.tokens.inputs, &in_place.tokens.options, &state, &out,
                                &state, in_place.bytes_of(in_place.forward_scratch)),
            MALA_OK)
      << mala_last_error();
  EXPECT_EQ(in_place.before, apart.after);
  EXPECT_EQ(in_place.tokens.out, apart.tokens.out);
}

TEST(CausalC, StepGivesTheNumbersOfCpp) {
  const Shape one{.heads = 6, .kv_heads = 3, .queries = 1, .keys = 1};
  CausalCall<BFloat16> c(one), cpp(one);
  ASSERT_EQ(c.step(), MALA_OK) << mala_last_error();
  causal_step<BFloat16>(cpp.cpp_tokens(), {}, Call<BFloat16>::view(cpp.tokens.out_tensor()),
                        {cpp.before.sums, cpp.before.counts});
  EXPECT_EQ(c.tokens.out, cpp.tokens.out);
  EXPECT_EQ(c.before, cpp.before);
  EXPECT_EQ(c.before.counts, (std::vector<int64_t>{6, 6}));
}

TEST(CausalC, TellsTheSizeOfAState) {
  CausalCall<BFloat16> call;
  int64_t sums = 0, counts = 0;
  ASSERT_EQ(mala_causal_state_bytes(&call.tokens.inputs, &sums, &counts), MALA_OK);
  EXPECT_EQ(sums, 2 * 3 * (16 * 8 + 2 * 16 + 8) * 8);  // doubles, whatever the type
  EXPECT_EQ(counts, 2 * 8);
}

// Programs built against this version rely on these numbers: changing one breaks them.
TEST(CausalC, LayoutStaysAsItIs) {
  EXPECT_EQ(sizeof(mala_causal_state), 32u);
  EXPECT_EQ(offsetof(mala_causal_output_gradients, after), 80u);
  EXPECT_GE(sizeof(mala_causal_output_gradients), 96u);
  EXPECT_EQ(offsetof(mala_causal_input_gradients, before), 368u);
  EXPECT_GE(sizeof(mala_causal_input_gradients), 384u);
}

bool says(const std::string& text) { return std::strstr(mala_last_error(), text.c_str()); }

// After `damage`, forward must be refused with this text, and leave out and the state as they were.
void expect_refused(const std::function<void(CausalCall<float>&)>& damage,
                    const std::string& text) {
  CausalCall<float> call;
  damage(call);
  const std::vector<float> out = call.tokens.out;
  const State after = call.after;
  EXPECT_EQ(call.forward(), MALA_INVALID_ARGUMENT) << text;
  EXPECT_TRUE(says("[mala_causal_forward] ") && says(text)) << mala_last_error();
  EXPECT_EQ(call.tokens.out, out);
  EXPECT_EQ(call.after, after);
}

TEST(CausalC, RefusesStatesThatDoNotFit) {
  using Wrong = CausalCall<float>;
  expect_refused([](Wrong& x) { x.before.counts[1] = -3; }, "count 1 of the state is -3");
  expect_refused([](Wrong& x) { x.before.sums.pop_back(); },
                 "the state before has 1007 sums but 1008");
  expect_refused([](Wrong& x) { x.after.sums.pop_back(); },
                 "the state after has 1007 sums but 1008");
  expect_refused([](Wrong& x) { x.before.counts.pop_back(); }, "has 1 counts for 2 sequences");
  expect_refused([](Wrong& x) { x.before.counts.clear(); }, "0 counts; pass both");
  expect_refused([](Wrong& x) { x.tokens.inputs.k.sizes[2] = x.tokens.inputs.v.sizes[2] = 5; },
                 "q has 6 tokens but k has 5");
  expect_refused([](Wrong& x) { x.forward_scratch.clear(); }, "scratch (in bytes) has 0");
}

TEST(CausalC, RefusesStatesOfNoWholeNumberOfElements) {
  CausalCall<float> call;
  const mala_tensor out = call.tokens.out_tensor();
  const mala_causal_state before = call.before.c(), after = call.after.c();
  const mala_buffer scratch = call.bytes_of(call.forward_scratch);
  const auto forward = [&](const mala_causal_state& from, const mala_causal_state& to) {
    return mala_causal_forward(&call.tokens.inputs, &call.tokens.options, &from, &out, &to,
                               scratch);
  };
  const std::string advice = ", a multiple of 8 is needed; ask mala_causal_state_bytes";
  mala_causal_state odd = before;
  odd.sums.bytes += 7;
  EXPECT_EQ(forward(odd, after), MALA_INVALID_ARGUMENT);
  EXPECT_TRUE(says("[mala_causal_forward] before.sums.bytes is 8071" + advice))
      << mala_last_error();
  odd = after;
  odd.counts.bytes -= 1;
  EXPECT_EQ(forward(before, odd), MALA_INVALID_ARGUMENT);
  EXPECT_TRUE(says("[mala_causal_forward] after.counts.bytes is 15" + advice)) << mala_last_error();
  EXPECT_EQ(forward(before, after), MALA_OK) << mala_last_error();
}

// A step must be refused with these lengths, and leave the state as it was.
void expect_step_refused(mala_integers mala_attention_inputs::*list,
                         const std::vector<int64_t>& numbers) {
  CausalCall<float> call({.queries = 1, .keys = 1});
  const State before = call.before;
  call.tokens.inputs.*list = Call<float>::integers(numbers);
  EXPECT_EQ(call.step(), MALA_INVALID_ARGUMENT);
  EXPECT_TRUE(says("[mala_causal_step] a step came with")) << mala_last_error();
  EXPECT_EQ(call.before, before);
}

TEST(CausalC, StepsTakeNoLengths) {
  expect_step_refused(&mala_attention_inputs::key_counts, {1, 1});
  expect_step_refused(&mala_attention_inputs::q_offsets, {0, 1});
  expect_step_refused(&mala_attention_inputs::k_offsets, {0, 1});
  expect_step_refused(&mala_attention_inputs::q_widths, {1, 1});
  expect_step_refused(&mala_attention_inputs::k_widths, {1, 1});
}

TEST(CausalC, RefusesNullPointersInEveryPlace) {
  CausalCall<float> call;
  const mala_attention_inputs* in = &call.tokens.inputs;
  const mala_options* options = &call.tokens.options;
  const mala_tensor out = call.tokens.out_tensor();
  const mala_causal_state state = call.before.c(), after = call.after.c();
  mala_causal_state holes = state;
  holes.sums.data = nullptr;
  const mala_buffer forward = call.bytes_of(call.forward_scratch);
  const mala_buffer backward = call.bytes_of(call.backward_scratch);
  int64_t bytes = 0;
  for (const mala_status status :
       {mala_causal_forward(nullptr, options, &state, &out, &after, forward),
        mala_causal_forward(in, nullptr, &state, &out, &after, forward),
        mala_causal_forward(in, options, &holes, &out, &after, forward),
        mala_causal_forward(in, options, &state, nullptr, &after, forward),
        mala_causal_forward(in, options, &state, &out, &holes, forward),
        mala_causal_forward(in, options, &state, &out, &after, {nullptr, forward.bytes}),
        mala_causal_backward(in, options, &state, nullptr, &call.to, backward),
        mala_causal_backward(in, options, &state, &call.from, nullptr, backward),
        mala_causal_step(in, options, &out, nullptr),
        mala_causal_step(in, options, nullptr, &state),
        mala_causal_state_bytes(in, nullptr, &bytes), mala_causal_state_bytes(in, &bytes, nullptr),
        mala_causal_forward_scratch_bytes(in, options, &state, nullptr),
        mala_causal_backward_scratch_bytes(in, options, &state, nullptr)}) {
    EXPECT_EQ(status, MALA_INVALID_ARGUMENT);
  }
}

TEST(CausalC, NamesTheFunctionThatWasCalled) {
  CausalCall<float> call;
  EXPECT_EQ(call.step(), MALA_INVALID_ARGUMENT);
  EXPECT_TRUE(says("[mala_causal_step] q has 6 tokens")) << mala_last_error();
  call.from.out.sizes[2] = 5;
  EXPECT_EQ(call.backward(), MALA_INVALID_ARGUMENT);
  EXPECT_TRUE(says("[mala_causal_backward] out_gradient has shape")) << mala_last_error();
  call.to.struct_size = 8;
  EXPECT_EQ(call.backward(), MALA_INVALID_ARGUMENT);
  EXPECT_TRUE(says("[mala_causal_backward] to.struct_size is 8")) << mala_last_error();
  mala_causal_state state = call.before.c();
  state.sums.data = static_cast<char*>(state.sums.data) + 4;
  int64_t bytes = -1;
  EXPECT_EQ(
      mala_causal_forward_scratch_bytes(&call.tokens.inputs, &call.tokens.options, &state, &bytes),
      MALA_INVALID_ARGUMENT);
  EXPECT_TRUE(says("before.sums.data is ") && says("a multiple of 8")) << mala_last_error();
  EXPECT_EQ(bytes, -1);
}

}  // namespace
}  // namespace mala
