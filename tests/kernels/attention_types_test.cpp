// bfloat16 and float16: what the float kernel gives for the same numbers, rounded once. To the bit,
// because nothing between reading and writing may be rounded.
#include <gtest/gtest.h>

#include <vector>

#include "mala/kernels/attention.h"
#include "tests/support/every_isa.h"
#include "tests/support/random.h"

namespace mala {
namespace {

struct Sizes {
  int64_t queries, keys, dim, value_dim;
};

// Dense rows, or channels first, where tokens lie side by side.
enum class Layout { kRows, kChannelsFirst };

template <typename T>
struct Tensor {
  std::vector<T> data;
  HeadsView<T> view;

  Tensor(int64_t tokens, int64_t dim, Layout layout) : data(2 * 2 * tokens * dim) {
    view = dense_heads(data.data(), 2, 2, tokens, dim);
    if (layout == Layout::kRows) return;
    view.token_stride = 1;
    view.dim_stride = tokens;
  }
};

// The same call in type T: random inputs, then the output, the state and all gradients.
template <typename T>
struct Call {
  Tensor<T> q, k, v, local, gate, out_gradient, out, dq, dk, dv, d_local, d_gate;
  std::vector<Compute<T>> state;

  Call(const Sizes& s, Layout layout)
      : q(s.queries, s.dim, layout),
        k(s.keys, s.dim, layout),
        v(s.keys, s.value_dim, layout),
        local(s.queries, s.value_dim, layout),
        gate(s.queries, s.value_dim, layout),
        out_gradient(s.queries, s.value_dim, layout),
        out(s.queries, s.value_dim, layout),
        dq(s.queries, s.dim, layout),
        dk(s.keys, s.dim, layout),
        dv(s.keys, s.value_dim, layout),
        d_local(s.queries, s.value_dim, layout),
        d_gate(s.queries, s.value_dim, layout),
        state(static_cast<size_t>(attention_state_size(2, 2, s.dim, s.value_dim))) {}

  std::vector<Tensor<T>*> inputs() { return {&q, &k, &v, &local, &gate, &out_gradient}; }
  std::vector<Tensor<T>*> outputs() { return {&out, &dq, &dk, &dv, &d_local, &d_gate}; }

  void run(const AttentionOptions& options) {
    const AttentionInputs<T> in{q.view, k.view, v.view, local.view, gate.view};
    std::vector<std::byte> scratch(static_cast<size_t>(attention_scratch_bytes(in, options)));
    attention_forward<T>(in, options, out.view, state, scratch);
    attention_backward<T>(in, options, out_gradient.view, state,
                          {dq.view, dk.view, dv.view, d_local.view, d_gate.view}, scratch);
  }
};

template <typename T>
void expect_rounded_float(const Sizes& sizes, Layout layout, const AttentionOptions& options) {
  Call<T> narrow(sizes, layout);
  Call<float> wide(sizes, layout);
  test::Random random(11);
  for (size_t i = 0; i < narrow.inputs().size(); ++i) {
    for (size_t j = 0; j < narrow.inputs()[i]->data.size(); ++j) {
      const T value = round_to<T>(static_cast<float>(random.uniform(-1, 1)));
      narrow.inputs()[i]->data[j] = value;
      wide.inputs()[i]->data[j] = to_float(value);
    }
  }
  narrow.run(options);
  wide.run(options);
  EXPECT_EQ(narrow.state, wide.state);
  for (size_t i = 0; i < narrow.outputs().size(); ++i) {
    for (size_t j = 0; j < narrow.outputs()[i]->data.size(); ++j) {
      ASSERT_EQ(narrow.outputs()[i]->data[j].bits, round_to<T>(wide.outputs()[i]->data[j]).bits)
          << "output " << i << " element " << j;
    }
  }
}

class AttentionTypes : public test::IsaTest {};

TEST_P(AttentionTypes, AreTheFloatKernelRoundedOnce) {
  AttentionOptions options{.norm = Norm::kBalanced};
  options.q_rope = options.k_rope = Rope::grid(9);
  for (const Sizes& sizes : {Sizes{1, 1, 8, 8}, Sizes{70, 45, 24, 40}, Sizes{100, 300, 64, 32}}) {
    for (const Layout layout : {Layout::kRows, Layout::kChannelsFirst}) {
      SCOPED_TRACE(str("queries ", sizes.queries, " layout ", static_cast<int>(layout)));
      expect_rounded_float<BFloat16>(sizes, layout, options);
      expect_rounded_float<Float16>(sizes, layout, options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, AttentionTypes, testing::ValuesIn(test::tested_isas()),
                         test::isa_name);

}  // namespace
}  // namespace mala
