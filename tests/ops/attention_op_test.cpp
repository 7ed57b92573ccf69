// The operators of mala/ops/attention.h as C++ programs call them: linked, with tensors, gradients
// and errors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mala/core/error.h"
#include "mala/ops/attention.h"

namespace mala::ops {
namespace {

using at::Tensor;

// float32 sums of a few dozen terms, relative to values around one.
constexpr double kTolerance = 1e-5;

Tensor feature(const Tensor& x) { return at::elu(x) + 1; }

// The published rule without RoPE, over the full matrix of weights.
Tensor formula(const Tensor& q, const Tensor& k, const Tensor& v) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(3)));
  const Tensor scores = at::matmul(feature(q), feature(k).transpose(2, 3)) * scale;  // (B, H, N, M)
  const Tensor s = scores.mean(-1, true);                                            // (B, H, N, 1)
  const Tensor weights = (1 + 1 / (s + 1e-6)) * scores - s;
  return at::matmul(weights, v) / static_cast<double>(k.size(2));
}

struct Inputs {
  Tensor q, k, v;

  std::vector<Tensor> all() const { return {q, k, v}; }
};

// Slices of one packed projection: q and k (2, 3, 50, 16), v (2, 3, 50, 24).
Inputs packed_inputs() {
  at::manual_seed(3);
  const Tensor wide = at::randn({2, 50, 3 * (16 + 16 + 24)});
  const auto part = [&](int64_t start, int64_t dim) {
    const Tensor slice = wide.narrow(2, 3 * start, 3 * dim);
    return slice.unflatten(2, {3, dim}).transpose(1, 2).detach().requires_grad_();
  };
  return {part(0, 16), part(16, 16), part(32, 24)};
}

double largest_difference(const Tensor& x, const Tensor& y) {
  return (x - y).abs().max().item<double>();
}

std::vector<Tensor> gradients(const Tensor& out, const Inputs& x) {
  return torch::autograd::grad({out.sin().sum()}, x.all());
}

TEST(AttentionOp, EqualsTheFormula) {
  const Inputs x = packed_inputs();
  ASSERT_FALSE(x.q.is_contiguous());
  EXPECT_LT(largest_difference(attention(x.q, x.k, x.v), formula(x.q, x.k, x.v)), kTolerance);
}

TEST(AttentionOp, GradientsEqualThoseOfTheFormula) {
  const Inputs x = packed_inputs();
  const auto actual = gradients(attention(x.q, x.k, x.v), x);
  const auto expected = gradients(formula(x.q, x.k, x.v), x);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(largest_difference(actual[i], expected[i]), kTolerance) << "input " << i;
  }
}

// A table of the angles of 1d RoPE says the same as the option, so both reach the kernels.
TEST(AttentionOp, PassesEveryOptionOn) {
  const Inputs x = packed_inputs();
  const Tensor frequencies = at::pow(10000.0, at::arange(8, at::kDouble) / -8);
  const Tensor positions = at::arange(50, at::kDouble);
  const Tensor angles = at::outer(positions + 4, frequencies).to(at::kDouble);
  const Tensor table_cos = angles.cos().to(at::kFloat), table_sin = angles.sin().to(at::kFloat);
  const Tensor local = at::randn({2, 3, 50, 24}), gate = at::randn({2, 3, 50, 24});

  AttentionArguments arguments = {.local = local,
                                  .gate = gate,
                                  .rule = Rule::kLinear,
                                  .norm = Norm::kBalanced,
                                  .feature = Feature::kExp,
                                  .key_mean = false,
                                  .scale = 0.5,
                                  .eps = 0.1,
                                  .rope = Rope::Kind::kLine,
                                  .rope_offset = {4, 4}};
  const Tensor by_line = attention(x.q, x.k, x.v, arguments);
  arguments.rope = Rope::Kind::kTable;
  arguments.rope_offset = {0, 0};
  arguments.rope_table = {table_cos, table_sin};
  const Tensor by_table = attention(x.q, x.k, x.v, arguments);
  EXPECT_LT(largest_difference(by_line, by_table), kTolerance);

  arguments.local.reset();
  arguments.gate.reset();
  const Tensor bare = attention(x.q, x.k, x.v, arguments);
  EXPECT_LT(largest_difference((bare + local) * gate, by_table), kTolerance);
  arguments.rule = Rule::kInline;
  EXPECT_GT(largest_difference(attention(x.q, x.k, x.v, arguments), bare), 0.01);
}

// Two sequences of one row are packed, and an entry whose keys end early has no more of them.
TEST(AttentionOp, PassesLengthsOn) {
  const Inputs x = packed_inputs();
  const auto tokens = [&](int64_t begin, int64_t end) {
    const auto cut = [&](const Tensor& y) { return y.narrow(0, 0, 1).slice(2, begin, end); };
    return Inputs{cut(x.q), cut(x.k), cut(x.v)};
  };
  const auto run = [](const Inputs& y, const AttentionArguments& arguments) {
    return attention(y.q, y.k, y.v, arguments);
  };
  const auto integers = [](std::vector<int64_t> y) { return at::tensor(y, at::kLong); };

  const AttentionArguments line = {.rope = Rope::Kind::kLine};
  const Tensor apart = at::cat({run(tokens(0, 20), line), run(tokens(20, 50), line)}, 2);
  const Tensor ends = integers({0, 20, 50});
  const AttentionArguments packed = {
      .rope = Rope::Kind::kLine, .cu_seqlens_q = ends, .cu_seqlens_k = ends};
  EXPECT_LT(largest_difference(run(tokens(0, 50), packed), apart), kTolerance);

  const Tensor short_keys = attention(x.q, x.k.narrow(2, 0, 9), x.v.narrow(2, 0, 9));
  const Tensor counted = attention(x.q, x.k, x.v, {.key_lengths = integers({9, 9})});
  EXPECT_LT(largest_difference(counted, short_keys), kTolerance);

  const AttentionArguments one_width = {.rope = Rope::Kind::kGrid, .grid_width = {5, 7}};
  const AttentionArguments widths = {.rope = Rope::Kind::kGrid,
                                     .grid_widths = integers({5, 7, 5, 7}).view({2, 2})};
  EXPECT_LT(largest_difference(run(x, widths), run(x, one_width)), kTolerance);
}

// The balanced rule over the lower triangle of the matrix of weights.
Tensor causal_formula(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor seen = at::ones({q.size(2), k.size(2)}).tril();  // (N, M)
  const Tensor counts = seen.sum(-1, true);                     // (N, 1)
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(3)));
  const Tensor scores =
      at::matmul(feature(q), feature(k).transpose(2, 3)) * seen * scale / counts;  // (B, H, N, M)
  const Tensor s = scores.sum(-1, true), gain = 1 + 1 / (s + 1e-6);
  return at::matmul(gain * scores - (gain * s - 1) * seen / counts, v);
}

TEST(AttentionOp, CausalFormsEqualTheFormula) {
  const Inputs x = packed_inputs();
  const Tensor expected = causal_formula(x.q, x.k, x.v);
  const Tensor out = causal_attention(x.q, x.k, x.v);
  EXPECT_LT(largest_difference(out, expected), kTolerance);
  const auto actual = gradients(out, x), wanted = gradients(expected, x);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_LT(largest_difference(actual[i], wanted[i]), kTolerance) << "input " << i;
  }
}

TEST(AttentionOp, TextGoesOnFromItsState) {
  const Inputs x = packed_inputs();
  const auto part = [](const Tensor& y, int64_t begin, int64_t end) {
    return y.detach().slice(2, begin, end);
  };
  const AttentionArguments line = {.rope = Rope::Kind::kLine};
  const auto chunk = [&](int64_t begin, int64_t end, const Chunk& before) {
    const auto given = [](const Tensor& y) {
      return y.defined() ? std::optional<Tensor>(y) : std::nullopt;
    };
    return attention_chunk(part(x.q, begin, end), part(x.k, begin, end), part(x.v, begin, end),
                           given(before.state), given(before.count), line);
  };
  const Chunk first = chunk(0, 31, {}), second = chunk(31, 49, first);
  const Tensor last = attention_step(part(x.q, 49, 50), part(x.k, 49, 50), part(x.v, 49, 50),
                                     second.state, second.count, line);
  const Tensor whole = causal_attention(x.q, x.k, x.v, line);
  EXPECT_LT(largest_difference(at::cat({first.out, second.out, last}, 2), whole), kTolerance);
  EXPECT_EQ(second.count[0].item<int64_t>(), 50);
  EXPECT_EQ(second.state.scalar_type(), at::kDouble);
}

TEST(AttentionOp, StepsTakeNoLengths) {
  const Tensor x = at::rand({2, 1, 1, 8}), numbers = at::ones({2}, at::kLong);
  const Chunk before = attention_chunk(x, x, x, {}, {});
  const Tensor state = before.state.clone();
  for (const AttentionArguments& arguments :
       std::vector<AttentionArguments>{{.key_lengths = numbers},
                                       {.cu_seqlens_q = numbers},
                                       {.cu_seqlens_k = numbers},
                                       {.rope = Rope::Kind::kGrid, .grid_widths = numbers}}) {
    try {
      attention_step(x, x, x, before.state, before.count, arguments);
      ADD_FAILURE() << "lengths were taken";
    } catch (const c10::Error& e) {
      EXPECT_TRUE(std::string(e.what()).starts_with(
          "[mala::attention_step] the arguments have lengths, but a step takes one token"))
          << e.what();
    }
  }
  EXPECT_TRUE(at::equal(before.state, state));
}

// Each half takes its own side of the arguments of the whole.
TEST(AttentionOp, HalvesEqualTheWhole) {
  const Inputs x = packed_inputs();
  const Tensor counts = at::tensor({9, 30}, at::kLong);
  AttentionArguments arguments = {.gate = at::randn({2, 3, 50, 24}),
                                  .norm = Norm::kBalanced,
                                  .rope = Rope::Kind::kGrid,
                                  .rope_offset = {3, 1},
                                  .grid_width = {5, 7},
                                  .key_lengths = counts};
  const auto halves = [&] {
    return attention_queries(x.q, attention_keys(x.k, x.v, arguments), counts, arguments);
  };
  const Tensor out = halves(), whole = attention(x.q, x.k, x.v, arguments);
  EXPECT_LT(largest_difference(out, whole), kTolerance);
  const auto actual = gradients(out, x), wanted = gradients(whole, x);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_LT(largest_difference(actual[i], wanted[i]), kTolerance) << "input " << i;
  }

  arguments.grid_width = {0, 0};
  arguments.grid_widths = at::tensor({2, 3, 4, 5}, at::kLong).view({2, 2});
  EXPECT_LT(largest_difference(halves(), attention(x.q, x.k, x.v, arguments)), kTolerance);
  arguments.grid_widths.reset();
  arguments.rope = Rope::Kind::kTable;
  arguments.rope_offset = {0, 0};
  const Tensor angles = at::rand({4, 50, 8});
  arguments.rope_table = {angles[0], angles[1], angles[2], angles[3]};
  EXPECT_LT(largest_difference(halves(), attention(x.q, x.k, x.v, arguments)), kTolerance);
}

// A message of the kernels names the operator and its arguments.
TEST(AttentionOp, ErrorsOfKernelsPassThrough) {
  const Inputs x = packed_inputs();
  try {
    attention(x.q, x.k, x.v, {.key_lengths = at::tensor({50, 0}, at::kLong)});
    ADD_FAILURE() << "a length of 0 was taken";
  } catch (const mala::Error& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("[mala::attention] key_lengths[1] is 0"))
        << e.what();
  }
  EXPECT_THROW(attention(x.q, x.v, x.v), mala::Error);
  EXPECT_THROW(attention(x.q.to(at::kBFloat16), x.k, x.v), c10::Error);
}

// Two copies of libgomp would mean two pools of threads that fight for the cores.
TEST(AttentionOp, LoadsOneLibgomp) {
  const Inputs x = packed_inputs();
  attention(x.q, x.k, x.v);
  std::set<std::string> copies;
  std::ifstream maps("/proc/self/maps");
  for (std::string word; maps >> word;) {
    if (word.find("libgomp") != std::string::npos) copies.insert(word);
  }
  EXPECT_EQ(copies.size(), 1u);
}

}  // namespace
}  // namespace mala::ops
