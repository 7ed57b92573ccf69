// Wrong calls: each is refused with a message that helps, before anything is written.
#include <gtest/gtest.h>

#include <limits>

#include "tests/support/refused_calls.h"

namespace mala::test {
namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kQueries = 5, kKeys = 7, kDim = 16, kValueDim = 24;

AttentionCase legal_case() {
  AttentionCase c{.batch = kBatch,
                  .heads = kHeads,
                  .queries = kQueries,
                  .keys = kKeys,
                  .dim = kDim,
                  .value_dim = kValueDim};
  c.set_tail(3);
  return c;
}

void expect_all_refuse(const Spoil& spoil, const Facts& facts) {
  test::expect_all_refuse(legal_case(), spoil, facts);
}

void expect_forward_refuses(const Spoil& spoil, const Facts& facts) {
  test::expect_forward_refuses(legal_case(), spoil, facts);
}

void expect_backward_refuses(const Spoil& spoil, const Facts& facts) {
  test::expect_backward_refuses(legal_case(), spoil, facts);
}

TEST(AttentionErrors, ALegalCallIsTaken) {
  const Call call(legal_case());
  EXPECT_NO_THROW(call.scratch_bytes());
  EXPECT_NO_THROW(call.forward());
  EXPECT_NO_THROW(call.backward());
  EXPECT_FALSE(call.untouched());
}

TEST(AttentionErrors, SizesThatDisagree) {
  expect_all_refuse([](Call& c) { c.inputs.k.dim = 8; }, {"k ", "16", "8"});
  expect_all_refuse([](Call& c) { c.inputs.k.tokens = 6; }, {"6", "7", "token"});
  expect_all_refuse([](Call& c) { c.inputs.v.tokens = 6; }, {"v ", "6", "7", "token"});
  expect_all_refuse([](Call& c) { c.inputs.k.batch = 1; },
                    {"k ", "(1, 3, 7, 16)", "(2, 3, 5, 16)", "batch"});
  expect_all_refuse([](Call& c) { c.inputs.v.heads = 2; },
                    {"v ", "(2, 2, 7, 24)", "(2, 3, 7, 24)"});
  expect_all_refuse([](Call& c) { c.inputs.local.tokens = 4; },
                    {"local", "(2, 3, 4, 24)", "(2, 3, 5, 24)"});
  expect_all_refuse([](Call& c) { c.inputs.gate.dim = 16; },
                    {"gate", "(2, 3, 5, 16)", "(2, 3, 5, 24)"});
  expect_all_refuse([](Call& c) { c.inputs.gate.batch = 1; },
                    {"gate", "(1, 3, 5, 24)", "(2, 3, 5, 24)"});
}

TEST(AttentionErrors, OutputsOfTheWrongShape) {
  expect_forward_refuses([](Call& c) { c.out.dim = kDim; },
                         {"out", "(2, 3, 5, 16)", "(2, 3, 5, 24)"});
  expect_forward_refuses([](Call& c) { c.out.tokens = kKeys; },
                         {"out", "(2, 3, 7, 24)", "(2, 3, 5, 24)"});
  expect_backward_refuses([](Call& c) { c.out_gradient.tokens = 4; },
                          {"out_gradient", "(2, 3, 4, 24)", "(2, 3, 5, 24)"});
  expect_backward_refuses([](Call& c) { c.gradients.q.tokens = kKeys; },
                          {"gradient of q", "(2, 3, 7, 16)", "(2, 3, 5, 16)"});
  expect_backward_refuses([](Call& c) { c.gradients.k.heads = 1; },
                          {"gradient of k", "(2, 1, 7, 16)", "(2, 3, 7, 16)"});
  expect_backward_refuses([](Call& c) { c.gradients.v.dim = kDim; },
                          {"gradient of v", "(2, 3, 7, 16)", "(2, 3, 7, 24)"});
  expect_backward_refuses([](Call& c) { c.gradients.local.batch = 1; },
                          {"gradient of local", "(1, 3, 5, 24)", "(2, 3, 5, 24)"});
  expect_backward_refuses([](Call& c) { c.gradients.gate.dim = 32; },
                          {"gradient of gate", "(2, 3, 5, 32)", "(2, 3, 5, 24)"});
}

TEST(AttentionErrors, SizesOfZeroAndBelow) {
  for (const int64_t size : {int64_t{0}, int64_t{-3}}) {
    const std::string text = std::to_string(size);
    expect_all_refuse([&](Call& c) { c.inputs.q.batch = size; }, {"q ", text, "at least 1"});
    expect_all_refuse([&](Call& c) { c.inputs.q.heads = size; }, {"q ", text, "at least 1"});
    expect_all_refuse([&](Call& c) { c.inputs.q.tokens = size; }, {"q ", text, "at least 1"});
    expect_all_refuse([&](Call& c) { c.inputs.k.tokens = size; }, {"k ", text, "at least 1"});
    expect_all_refuse([&](Call& c) { c.inputs.v.dim = size; }, {"v ", text, "at least 1"});
  }
}

TEST(AttentionErrors, SizesBeyondMemory) {
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  expect_all_refuse([](Call& c) { c.inputs.q.batch = kHuge; }, {"q ", std::to_string(kHuge)});
  expect_all_refuse([](Call& c) { c.inputs.k.token_stride = kHuge; }, {"k ", "stride"});
  expect_all_refuse([](Call& c) { c.inputs.k.token_stride = -kHuge - 1; }, {"k ", "stride"});
}

TEST(AttentionErrors, HeadSizes) {
  for (const int64_t dim : {4, 12, 100, 264, 1024}) {
    expect_all_refuse([&](Call& c) { c.inputs.q.dim = c.inputs.k.dim = dim; },
                      {std::to_string(dim), "multiple of 8", "256"});
    expect_all_refuse(
        [&](Call& c) { c.inputs.v.dim = c.inputs.local.dim = c.inputs.gate.dim = dim; },
        {"v ", std::to_string(dim), "multiple of 8", "256"});
  }
}

TEST(AttentionErrors, MissingData) {
  expect_all_refuse([](Call& c) { c.inputs.q.data = nullptr; }, {"q ", "no data"});
  expect_all_refuse([](Call& c) { c.inputs.k.data = nullptr; }, {"k ", "no data"});
  expect_all_refuse([](Call& c) { c.inputs.v.data = nullptr; }, {"v ", "no data"});
  expect_forward_refuses([](Call& c) { c.out.data = nullptr; }, {"out", "no data"});
  expect_backward_refuses([](Call& c) { c.out_gradient.data = nullptr; },
                          {"out_gradient", "no data"});
  expect_backward_refuses([](Call& c) { c.gradients.q.data = nullptr; },
                          {"gradient of q", "no data"});
  expect_backward_refuses([](Call& c) { c.gradients.k.data = nullptr; },
                          {"gradient of k", "no data"});
  expect_backward_refuses([](Call& c) { c.gradients.v.data = nullptr; },
                          {"gradient of v", "no data"});
}

// Gradients of the tail are wanted exactly where the tail is.
TEST(AttentionErrors, TailWithoutGradientAndGradientWithoutTail) {
  expect_backward_refuses([](Call& c) { c.gradients.local = {}; },
                          {"gradient of local", "missing"});
  expect_backward_refuses([](Call& c) { c.gradients.gate = {}; }, {"gradient of gate", "missing"});
  expect_backward_refuses([](Call& c) { c.inputs.local = {}; }, {"gradient of local", "given"});
  expect_backward_refuses([](Call& c) { c.inputs.gate = {}; }, {"gradient of gate", "given"});
}

TEST(AttentionErrors, OutputsThatOverlapThemselves) {
  const Facts facts{"out", "stride"};
  expect_forward_refuses([](Call& c) { c.out.batch_stride = 0; }, facts);
  expect_forward_refuses([](Call& c) { c.out.head_stride = 0; }, facts);
  expect_forward_refuses([](Call& c) { c.out.token_stride = 0; }, facts);
  expect_forward_refuses([](Call& c) { c.out.dim_stride = 0; }, facts);
  expect_forward_refuses([](Call& c) { c.out.token_stride = kValueDim - 1; }, {"out", "23"});
  expect_backward_refuses([](Call& c) { c.gradients.q.batch_stride = 0; },
                          {"gradient of q", "stride"});
  expect_backward_refuses([](Call& c) { c.gradients.k.token_stride = 1; },
                          {"gradient of k", "stride"});
  expect_backward_refuses([](Call& c) { c.gradients.v.head_stride = 0; },
                          {"gradient of v", "stride"});
}

HeadsView<float> writable(HeadsView<const float> x) {
  return {const_cast<float*>(x.data),
          x.batch,
          x.heads,
          x.tokens,
          x.dim,
          x.batch_stride,
          x.head_stride,
          x.token_stride,
          x.dim_stride};
}

TEST(AttentionErrors, OutputsThatOverlapInputsOrEachOther) {
  expect_forward_refuses([](Call& c) { c.out = writable(c.inputs.local); }, {"out", "local"});
  expect_forward_refuses([](Call& c) { c.out = writable(c.inputs.gate); }, {"out", "gate"});
  expect_forward_refuses([](Call& c) { c.out.data = const_cast<float*>(c.inputs.q.data); },
                         {"out", "q"});
  expect_backward_refuses([](Call& c) { c.gradients.q = writable(c.inputs.q); },
                          {"gradient of q", "shares memory"});
  expect_backward_refuses([](Call& c) { c.gradients.v = writable(c.inputs.v); },
                          {"gradient of v", "shares memory"});
  expect_backward_refuses([](Call& c) { c.gradients.local = writable(c.out_gradient); },
                          {"gradient of local", "out_gradient"});
  expect_backward_refuses([](Call& c) { c.gradients.gate.data = c.gradients.local.data; },
                          {"gradient of gate", "gradient of local"});
}

TEST(AttentionErrors, StateAndScratchThatAreTooSmall) {
  const int64_t needed = attention_state_size(kBatch, kHeads, kDim, kValueDim);
  const Facts facts{"state", std::to_string(needed - 1), std::to_string(needed),
                    "attention_state_size"};
  auto shorten_state = [&](Call& c) { c.state = c.state.first(needed - 1); };
  expect_forward_refuses(shorten_state, facts);
  expect_backward_refuses(shorten_state, facts);

  auto shorten_scratch = [](Call& c) { c.scratch = c.scratch.first(c.scratch.size() - 1); };
  const int64_t bytes = static_cast<int64_t>(Call(legal_case()).scratch.size());
  ASSERT_GT(bytes, 0);
  const Facts scratch_facts{"scratch", std::to_string(bytes - 1), std::to_string(bytes),
                            "attention_scratch_bytes"};
  expect_forward_refuses(shorten_scratch, scratch_facts);
  expect_backward_refuses(shorten_scratch, scratch_facts);
}

TEST(AttentionErrors, ScaleAndEps) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double bad : {nan, infinity, -infinity}) {
    expect_all_refuse([&](Call& c) { c.options.scale = bad; }, {"scale", str(bad), "finite"});
    expect_all_refuse([&](Call& c) { c.options.eps = bad; }, {"eps", str(bad), "finite"});
  }
  expect_all_refuse([](Call& c) { c.options.eps = -1e-6; }, {"eps", "-1e-06", "negative"});
}

TEST(AttentionErrors, UnknownChoices) {
  expect_all_refuse([](Call& c) { c.options.rule = static_cast<Rule>(7); }, {"rule", "7", "mala"});
  expect_all_refuse([](Call& c) { c.options.norm = static_cast<Norm>(-1); },
                    {"norm", "-1", "balanced"});
  expect_all_refuse([](Call& c) { c.options.feature = static_cast<Feature>(4); },
                    {"feature", "4", "elu1"});
  expect_all_refuse([](Call& c) { c.options.k_rope.kind = static_cast<Rope::Kind>(9); },
                    {"k_rope", "9", "grid"});
}

TEST(AttentionErrors, RopeThatCannotBe) {
  expect_all_refuse([](Call& c) { c.options.q_rope = Rope::grid(0); }, {"q_rope", "width", "0"});
  expect_all_refuse([](Call& c) { c.options.k_rope = Rope::grid(-4); }, {"k_rope", "width", "-4"});
  expect_all_refuse([](Call& c) { c.options.q_rope = Rope::line(-1); }, {"q_rope", "offset", "-1"});
  expect_all_refuse([](Call& c) { c.options.k_rope = Rope::grid(3, -2); },
                    {"k_rope", "offset", "-2"});
}

TEST(AttentionErrors, TablesThatAreMissingOrTooSmall) {
  static const std::vector<float> table(100, 1.0f);
  const float* data = table.data();
  expect_all_refuse([&](Call& c) { c.options.q_rope = Rope::table(nullptr, data, 5, 8); },
                    {"q_rope", "table", "cos"});
  expect_all_refuse([&](Call& c) { c.options.k_rope = Rope::table(data, nullptr, 7, 8); },
                    {"k_rope", "table", "sin"});
  expect_all_refuse([&](Call& c) { c.options.q_rope = Rope::table(data, data, 4, 8); },
                    {"q_rope", "4", "5", "row"});
  expect_all_refuse([&](Call& c) { c.options.k_rope = Rope::table(data, data, 6, 8); },
                    {"k_rope", "6", "7", "row"});
  expect_all_refuse([&](Call& c) { c.options.q_rope = Rope::table(data, data, 5, 7); },
                    {"q_rope", "stride", "7", "8"});
}

}  // namespace
}  // namespace mala::test
