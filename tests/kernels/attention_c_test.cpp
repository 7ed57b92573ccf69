// The C interface: the same numbers as the C++ one, and a code and a message for every misuse.
#include "mala/kernels/attention_c.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "mala/kernels/attention.h"
#include "tests/kernels/attention_c_call.h"

namespace mala {
namespace {

// The same call through C++, with options that the test chose itself: forward, then backward.
template <typename T>
void run_cpp(Call<T>& call, const AttentionOptions& options) {
  const auto view = Call<T>::view;
  const AttentionInputs<T> inputs{view(call.inputs.q),    view(call.inputs.k),
                                  view(call.inputs.v),    view(call.inputs.local),
                                  view(call.inputs.gate), call.shape.lengths};
  const AttentionGradients<T> gradients{view(call.gradients.q), view(call.gradients.k),
                                        view(call.gradients.v), view(call.gradients.local),
                                        view(call.gradients.gate)};
  attention_forward<T>(inputs, options, view(call.out_tensor()), call.state, call.scratch);
  attention_backward<T>(inputs, options, view(call.out_gradient_tensor()), call.state, gradients,
                        call.scratch);
}

// Runs both ways and wants the same bits: the C interface adds nothing to the arithmetic.
template <typename T>
void expect_same(const mala_options& c_options, const AttentionOptions& cpp_options,
                 const Shape& shape = {}) {
  Call<T> c(shape), cpp(shape);
  c.options = c_options;
  ASSERT_EQ(c.forward(), MALA_OK) << mala_last_error();
  ASSERT_EQ(c.backward(), MALA_OK) << mala_last_error();
  run_cpp(cpp, cpp_options);
  EXPECT_EQ(c.out, cpp.out);
  EXPECT_EQ(c.state, cpp.state);
  EXPECT_EQ(c.dq, cpp.dq);
  EXPECT_EQ(c.dk, cpp.dk);
  EXPECT_EQ(c.dv, cpp.dv);
  EXPECT_EQ(c.dlocal, cpp.dlocal);
  EXPECT_EQ(c.dgate, cpp.dgate);
}

TEST(AttentionC, DefaultsAreThoseOfCpp) {
  expect_same<float>(mala_options_default(), {});
  expect_same<double>(mala_options_default(), {});
}

TEST(AttentionC, EveryOptionArrives) {
  mala_options options = mala_options_default();
  options.rule = MALA_RULE_INLINE;
  options.norm = MALA_NORM_BALANCED;
  options.feature = MALA_FEATURE_EXP;
  options.key_mean = 0;
  options.scale = 0.125;
  options.eps = 0.5;
  options.q_rope.kind = MALA_ROPE_LINE;
  options.q_rope.offset = 3;
  options.k_rope.kind = MALA_ROPE_GRID;
  options.k_rope.width = 2;
  expect_same<float>(options, {.rule = Rule::kInline,
                               .norm = Norm::kBalanced,
                               .feature = Feature::kExp,
                               .key_mean = false,
                               .scale = 0.125,
                               .eps = 0.5,
                               .q_rope = Rope::line(3),
                               .k_rope = Rope::grid(2)});
}

TEST(AttentionC, RulesNormsAndFeaturesAreNumberedAsInCpp) {
  constexpr Rule kRules[] = {Rule::kMala, Rule::kLinear, Rule::kInline};
  constexpr Norm kNorms[] = {Norm::kPublished, Norm::kPrinted, Norm::kBalanced};
  constexpr int32_t kCNorms[] = {MALA_NORM_PUBLISHED, MALA_NORM_PRINTED, MALA_NORM_BALANCED};
  constexpr Feature kFeatures[] = {Feature::kElu1, Feature::kRelu, Feature::kExp};
  for (int32_t i = 0; i < 3; ++i) {
    mala_options c_options = mala_options_default();
    c_options.rule = c_options.feature = i;
    c_options.norm = kCNorms[i];
    AttentionOptions options;
    options.rule = kRules[i];
    options.norm = kNorms[i];
    options.feature = kFeatures[i];
    expect_same<double>(c_options, options);
  }
  EXPECT_EQ(static_cast<int>(MALA_FEATURE_IDENTITY), static_cast<int>(Feature::kIdentity));
}

TEST(AttentionC, NoNormIsThePublishedOne) {
  static_assert(MALA_NORM_DEFAULT == 0);
  mala_options options = mala_options_default();
  options.q_rope.kind = options.k_rope.kind = MALA_ROPE_LINE;
  AttentionOptions published;
  published.norm = Norm::kPublished;
  published.q_rope = published.k_rope = Rope::line();
  expect_same<float>(options, published);
}

TEST(AttentionC, NarrowTypesAreNumberedAsInCpp) {
  static_assert(MALA_BFLOAT16 == static_cast<int>(DType::kBFloat16));
  static_assert(MALA_FLOAT16 == static_cast<int>(DType::kFloat16));
  expect_same<BFloat16>(mala_options_default(), {});
  expect_same<Float16>(mala_options_default(), {});
}

TEST(AttentionC, TablesOfRotationsArrive) {
  const std::vector<float> cos = numbers<float>(7 * 9, 7), sin = numbers<float>(7 * 9, 8);
  mala_options c_options = mala_options_default();
  c_options.q_rope = c_options.k_rope = {MALA_ROPE_TABLE, 0, 0, cos.data(), sin.data(), 7, 9};
  AttentionOptions options;
  options.q_rope = options.k_rope = Rope::table(cos.data(), sin.data(), 7, 9);
  expect_same<double>(c_options, options);
}

TEST(AttentionC, KeyCountsAndGroupedHeadsArrive) {
  const std::vector<int64_t> counts = {7, 2};
  const Shape shape{.heads = 6, .kv_heads = 2, .lengths = {.key_counts = counts}};
  expect_same<float>(mala_options_default(), {}, shape);
  expect_same<double>(mala_options_default(), {}, shape);

  Call<float> counted(shape), whole({.heads = 6, .kv_heads = 2});
  ASSERT_EQ(counted.forward(), MALA_OK) << mala_last_error();
  ASSERT_EQ(whole.forward(), MALA_OK) << mala_last_error();
  EXPECT_NE(counted.out, whole.out);
}

TEST(AttentionC, PackedSequencesAndTheirWidthsArrive) {
  const std::vector<int64_t> q_offsets = {0, 4, 5, 11}, k_offsets = {0, 1, 9, 13};
  const std::vector<int64_t> q_widths = {2, 1, 3}, k_widths = {1, 4, 2};
  const Shape shape{.batch = 1,
                    .queries = 11,
                    .keys = 13,
                    .lengths = {.q_offsets = q_offsets,
                                .k_offsets = k_offsets,
                                .q_widths = q_widths,
                                .k_widths = k_widths}};
  mala_options c_options = mala_options_default();
  c_options.q_rope.kind = c_options.k_rope.kind = MALA_ROPE_GRID;
  c_options.q_rope.width = c_options.k_rope.width = 5;
  AttentionOptions options;
  options.q_rope = options.k_rope = Rope::grid(5);
  expect_same<float>(c_options, options, shape);
  expect_same<double>(c_options, options, shape);

  // D * E + 2 * D + E floats for each sequence and head.
  EXPECT_EQ(Call<float>(shape).state_buffer().bytes, 3 * 3 * (16 * 8 + 2 * 16 + 8) * 4);
}

TEST(AttentionC, LocalAndGateMayBeAbsent) {
  Call<float> call;
  call.inputs.local.data = call.inputs.gate.data = nullptr;
  call.gradients.local.data = call.gradients.gate.data = nullptr;
  EXPECT_EQ(call.forward(), MALA_OK) << mala_last_error();
  EXPECT_EQ(call.backward(), MALA_OK) << mala_last_error();
}

// Programs built against this version rely on these numbers: changing one breaks them.
TEST(AttentionC, LayoutStaysAsItIs) {
  EXPECT_EQ(sizeof(mala_tensor), 72u);
  EXPECT_EQ(sizeof(mala_buffer), 16u);
  EXPECT_EQ(sizeof(mala_rope), 56u);
  EXPECT_EQ(offsetof(mala_options, scale), 24u);
  EXPECT_EQ(offsetof(mala_options, k_rope), 96u);
  EXPECT_GE(sizeof(mala_options), 152u);
  EXPECT_EQ(offsetof(mala_attention_inputs, gate), 304u);
  EXPECT_EQ(sizeof(mala_integers), 16u);
  EXPECT_EQ(offsetof(mala_attention_inputs, key_counts), 376u);
  EXPECT_EQ(offsetof(mala_attention_inputs, k_widths), 440u);
  EXPECT_GE(sizeof(mala_attention_inputs), 456u);
  EXPECT_EQ(offsetof(mala_attention_gradients, gate), 296u);
  EXPECT_GE(sizeof(mala_attention_gradients), 368u);
}

// The call must be refused with this text, and leave out as it was.
void expect_refused(Call<float>& call, const std::string& text) {
  std::fill(call.out.begin(), call.out.end(), 42.0f);
  EXPECT_EQ(call.forward(), MALA_INVALID_ARGUMENT) << text;
  EXPECT_EQ(mala_last_error(), "[mala_attention_forward] " + text);
  EXPECT_EQ(call.out, std::vector<float>(call.out.size(), 42.0f));
}

TEST(AttentionC, RefusesUnknownChoices) {
  const std::string advice = " is needed; use the constants of attention_c.h";
  Call<float> call;
  call.options.rule = 3;
  expect_refused(call, "options.rule is 3, 0 to 2" + advice);
  call.options = mala_options_default();
  call.options.norm = -1;
  expect_refused(call, "options.norm is -1, 0 to 3" + advice);
  call.options.norm = 4;
  expect_refused(call, "options.norm is 4, 0 to 3" + advice);
  call.options = mala_options_default();
  call.options.feature = 4;
  expect_refused(call, "options.feature is 4, 0 to 3" + advice);
  call.options = mala_options_default();
  call.options.k_rope.kind = 9;
  expect_refused(call, "options.k_rope.kind is 9, 0 to 3" + advice);
  call.options = mala_options_default();
  call.inputs.dtype = 4;
  expect_refused(call,
                 "inputs.dtype is 4; use MALA_FLOAT32 (0), MALA_FLOAT64 (1), "
                 "MALA_BFLOAT16 (2) or MALA_FLOAT16 (3)");
}

TEST(AttentionC, RefusesNullPointersInEveryPlace) {
  Call<float> call;
  const mala_tensor out = call.out_tensor(), nowhere{};
  const mala_buffer state = call.state_buffer(), scratch = call.scratch_buffer();
  const mala_attention_inputs* in = &call.inputs;
  const mala_options* options = &call.options;
  int64_t bytes = 0;
  for (const mala_status status :
       {mala_attention_forward(nullptr, options, &out, state, scratch),
        mala_attention_forward(in, nullptr, &out, state, scratch),
        mala_attention_forward(in, options, nullptr, state, scratch),
        mala_attention_forward(in, options, &nowhere, state, scratch),
        mala_attention_forward(in, options, &out, {}, scratch),
        mala_attention_forward(in, options, &out, {nullptr, state.bytes}, scratch),
        mala_attention_forward(in, options, &out, state, {nullptr, scratch.bytes}),
        mala_attention_backward(nullptr, options, &out, state, &call.gradients, scratch),
        mala_attention_backward(in, options, nullptr, state, &call.gradients, scratch),
        mala_attention_backward(in, options, &out, state, nullptr, scratch),
        mala_attention_scratch_bytes(nullptr, options, &bytes),
        mala_attention_scratch_bytes(in, nullptr, &bytes),
        mala_attention_scratch_bytes(in, options, nullptr),
        mala_attention_state_bytes(nullptr, &bytes), mala_attention_state_bytes(in, nullptr)}) {
    EXPECT_EQ(status, MALA_INVALID_ARGUMENT);
  }
  call.inputs.k.data = nullptr;
  expect_refused(call, "k.data is null; only local and gate may be absent");
}

TEST(AttentionC, RefusesPointersThatAreNotAligned) {
  Call<float> call;
  call.inputs.v.data = static_cast<char*>(call.inputs.v.data) + 1;
  EXPECT_EQ(call.forward(), MALA_INVALID_ARGUMENT);
  EXPECT_TRUE(std::strstr(mala_last_error(), "a multiple of 4 is needed")) << mala_last_error();
}

TEST(AttentionC, RefusesBuffersOfNoWholeNumberOfElements) {
  Call<float> call;
  const mala_tensor out = call.out_tensor();
  mala_buffer state = call.state_buffer();
  state.bytes += 2;
  EXPECT_EQ(mala_attention_forward(&call.inputs, &call.options, &out, state, call.scratch_buffer()),
            MALA_INVALID_ARGUMENT);
  EXPECT_EQ(mala_last_error(),
            str("[mala_attention_forward] state.bytes is ", state.bytes,
                ", a multiple of 4 is needed; ask mala_attention_state_bytes for the size"));
}

// What the C++ entry refuses comes back under the name of the C function, not of the C++ one.
TEST(AttentionC, NamesTheFunctionThatWasCalled) {
  Call<float> call;
  call.inputs.k.sizes[3] = 24;
  int64_t bytes = -1;
  const auto begins_with = [](const std::string& text) {
    return std::string(mala_last_error()).starts_with(text);
  };
  EXPECT_EQ(call.forward(), MALA_INVALID_ARGUMENT);
  EXPECT_TRUE(begins_with("[mala_attention_forward] k")) << mala_last_error();
  EXPECT_EQ(call.backward(), MALA_INVALID_ARGUMENT);
  EXPECT_TRUE(begins_with("[mala_attention_backward] k")) << mala_last_error();
  EXPECT_EQ(mala_attention_state_bytes(&call.inputs, &bytes), MALA_INVALID_ARGUMENT);
  EXPECT_TRUE(begins_with("[mala_attention_state_bytes] k")) << mala_last_error();
  EXPECT_EQ(bytes, -1);
}

TEST(AttentionC, RefusesStructsOfTheWrongSize) {
  Call<float> call;
  call.options.struct_size = 0;
  expect_refused(call, str("options.struct_size is 0, ", sizeof(mala_options),
                           " is needed; set it to the sizeof of the struct"));
  call.options.struct_size = std::numeric_limits<size_t>::max();
  EXPECT_EQ(call.forward(), MALA_INVALID_ARGUMENT);
}

TEST(AttentionC, RefusesListsOfIntegersThatDoNotFit) {
  const int64_t counts[] = {7, 8};
  Call<float> call;
  call.inputs.key_counts = {counts, 2};
  expect_refused(call, "key_counts[1] is 8; each must be 1 to 7, the number of keys");
  const std::string advice = "; give as many as there are, or zero in both for none";
  call.inputs.key_counts = {counts, 0};
  expect_refused(call, "key_counts.count is 0 with data given" + advice);
  call.inputs.key_counts = {counts, -1};
  expect_refused(call, "key_counts.count is -1 with data given" + advice);
  call.inputs.key_counts = {nullptr, 2};
  expect_refused(call, "key_counts.count is 2 with data null" + advice);
  const char* bytes = reinterpret_cast<const char*>(counts);
  call.inputs.key_counts = {reinterpret_cast<const int64_t*>(bytes + 4), 1};
  EXPECT_EQ(call.forward(), MALA_INVALID_ARGUMENT);
  EXPECT_TRUE(std::strstr(mala_last_error(), "it must point to int64_t")) << mala_last_error();
}

// A program that was compiled before the inputs had lengths: nothing lies behind its struct.
TEST(AttentionC, TakesTheInputsOfTheFirstHeader) {
  constexpr size_t kFirstSize = 376;
  Call<float> before, now;
  before.inputs.struct_size = kFirstSize;
  std::vector<std::byte> memory(kFirstSize);
  std::memcpy(memory.data(), &before.inputs, kFirstSize);
  const auto* old = reinterpret_cast<const mala_attention_inputs*>(memory.data());

  const mala_tensor out = before.out_tensor(), out_gradient = before.out_gradient_tensor();
  const mala_buffer state = before.state_buffer(), scratch = before.scratch_buffer();
  int64_t bytes = 0;
  ASSERT_EQ(mala_attention_state_bytes(old, &bytes), MALA_OK) << mala_last_error();
  EXPECT_EQ(bytes, state.bytes);
  ASSERT_EQ(mala_attention_scratch_bytes(old, &before.options, &bytes), MALA_OK);
  EXPECT_EQ(bytes, scratch.bytes);
  ASSERT_EQ(mala_attention_forward(old, &before.options, &out, state, scratch), MALA_OK);
  ASSERT_EQ(mala_attention_backward(old, &before.options, &out_gradient, state, &before.gradients,
                                    scratch),
            MALA_OK);
  ASSERT_EQ(now.forward(), MALA_OK) << mala_last_error();
  ASSERT_EQ(now.backward(), MALA_OK) << mala_last_error();
  EXPECT_EQ(before.out, now.out);
  EXPECT_EQ(before.dk, now.dk);

  now.inputs.struct_size = kFirstSize - 1;
  expect_refused(now, str("inputs.struct_size is 375, ", sizeof(mala_attention_inputs),
                          " is needed; set it to the sizeof of the struct"));
}

// A program that was compiled with a later header, which has one more field.
TEST(AttentionC, TakesLargerStructsWhoseNewFieldsAreZero) {
  struct {
    mala_options known;
    int64_t added;
  } later{mala_options_default(), 0};
  later.known.struct_size = sizeof later;
  Call<float> call;
  const mala_tensor out = call.out_tensor();
  const auto forward = [&] {
    return mala_attention_forward(&call.inputs, &later.known, &out, call.state_buffer(),
                                  call.scratch_buffer());
  };
  EXPECT_EQ(forward(), MALA_OK) << mala_last_error();
  later.added = 1;
  EXPECT_EQ(forward(), MALA_INVALID_ARGUMENT);
  EXPECT_EQ(mala_last_error(),
            str("[mala_attention_forward] options sets fields that mala ", mala_version(),
                " does not know; leave them zero, or use the library of your header"));
}

TEST(AttentionC, KeepsTheMessageOfEachThread) {
  Call<float> call;
  call.options.rule = 3;
  EXPECT_EQ(call.forward(), MALA_INVALID_ARGUMENT);
  const std::string mine = mala_last_error();
  std::thread([] { EXPECT_STREQ(mala_last_error(), ""); }).join();
  call.options.rule = MALA_RULE_MALA;
  EXPECT_EQ(call.forward(), MALA_OK);
  EXPECT_EQ(mala_last_error(), mine);  // of the last call that failed
}

}  // namespace
}  // namespace mala
