// The tensors of a case, and the definition run on them.
#include "tests/support/attention_problem.h"

#include <algorithm>
#include <cmath>

#include "mala/kernels/reference/attention.h"
#include "mala/kernels/reference/causal.h"
#include "tests/support/reference_tensors.h"

namespace mala::test {
namespace {

// The tokens of the longest sequence.
int64_t longest(const std::vector<int64_t>& offsets, int64_t tokens) {
  if (offsets.empty()) return tokens;
  int64_t most = 0;
  for (size_t i = 1; i < offsets.size(); ++i) most = std::max(most, offsets[i] - offsets[i - 1]);
  return most;
}

}  // namespace

template <typename T>
AttentionProblem<T>::AttentionProblem(const AttentionCase& c) : about(c), options(c.options) {
  q = make_input(kQ, {c.batch, c.heads, c.queries, c.dim});
  k = make_input(kK, {c.batch, c.kv_heads(), c.keys, c.dim});
  v = make_input(kV, {c.batch, c.kv_heads(), c.keys, c.value_dim});
  if (c.local) local = make_input(kLocal, out_shape());
  if (c.gate) gate = make_input(kGate, out_shape());
  out_gradient = make_input(kG, out_shape());
  Random random(c.seed);
  q.fill(random, c.q_low, c.q_high);
  k.fill(random, c.k_low, c.k_high);
  v.fill(random, -0.5, 1.5);  // not around zero, or the mean value would hardly count
  local.fill(random, -1, 1);
  gate.fill(random, -1, 1);
  out_gradient.fill(random, -1, 1);
  spoil_uncounted(k, kK);
  spoil_uncounted(v, kV);
  fill_table(options.q_rope, q_table_, longest(c.lengths.q_offsets, c.queries), c.seed + 1);
  fill_table(options.k_rope, k_table_, longest(c.lengths.k_offsets, c.keys), c.seed + 2);
}

template <typename T>
Tensor<T> AttentionProblem<T>::make_input(Slot slot, Shape shape) const {
  return {shape, about.layouts[slot], Role::kInput, about.misalign};
}

// NaN in all keys or values beyond the counts, which nobody may read. In a tensor that all batch
// entries share, the longest counts for all.
template <typename T>
void AttentionProblem<T>::spoil_uncounted(Tensor<T>& x, Slot slot) const {
  const std::vector<int64_t>& counts = about.lengths.key_counts;
  if (counts.empty()) return;
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  const HeadsView<T> view = x.view();
  for (int64_t b = 0; b < view.batch; ++b) {
    const int64_t first = about.layouts[slot] == Layout::kShared ? most : counts[b];
    for (int64_t h = 0; h < view.heads; ++h)
      for (int64_t j = first; j < view.tokens; ++j)
        for (int64_t d = 0; d < view.dim; ++d) view.head(b, h).at(j, d) = guard_word<T>();
  }
}

// With two unused numbers after each row.
template <typename T>
void AttentionProblem<T>::fill_table(Rope& rope, std::vector<float>& table, int64_t tokens,
                                     uint64_t seed) const {
  if (rope.kind != Rope::Kind::kTable) return;
  const int64_t rows = tokens + about.table_spare, stride = about.dim / 2 + 2;
  table.assign(2 * rows * stride, guard_word<float>());
  Random random(seed);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t pair = 0; pair < about.dim / 2; ++pair) {
      const double angle = random.uniform(-about.table_angle, about.table_angle);
      table[row * stride + pair] = static_cast<float>(std::cos(angle));
      table[(rows + row) * stride + pair] = static_cast<float>(std::sin(angle));
    }
  }
  rope = Rope::table(table.data(), table.data() + rows * stride, rows, stride);
}

template <typename T>
AttentionInputs<T> AttentionProblem<T>::inputs() const {
  return {q.view(), k.view(), v.view(), local.view(), gate.view(), about.lengths.view()};
}

template <typename T>
AttentionResults run_reference(const AttentionProblem<T>& problem, Form form, Pass pass) {
  ReferenceTensors x(problem);
  const AttentionOptions& options = problem.options;
  const bool causal = form == Form::kCausal;
  if (causal) reference::causal_forward({x.inputs()}, options, x.out(), {});
  if (!causal) reference::attention_forward(x.inputs(), options, x.out());
  if (pass == Pass::kForward) return x.results();
  if (causal)
    reference::causal_backward({x.inputs()}, options, {x.out_gradient()}, {x.gradients()});
  if (!causal) reference::attention_backward(x.inputs(), options, x.out_gradient(), x.gradients());
  return x.results();
}

#define MALA_INSTANTIATE(T)            \
  template struct AttentionProblem<T>; \
  template AttentionResults run_reference(const AttentionProblem<T>&, Form, Pass)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::test
