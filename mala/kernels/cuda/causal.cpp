// Forward: sums of parts, scanned to those before each, then all sweeps side by side; neither sums
// nor a scan where warpgroups sweep over a text from its beginning in one part. Backward: the same
// for dq, then back over the parts for dk and dv.
#include "mala/kernels/cuda/causal.h"

#include <algorithm>

#include "mala/kernels/causal_checks.h"
#include "mala/kernels/cuda/launch_causal.h"
#include "mala/kernels/cuda/parts.h"
#include "mala/kernels/cuda/passes.h"
#include "mala/kernels/cuda/step.h"

namespace mala::gpu {
namespace {

// Packed keys lie as the queries do.
template <typename T>
AttentionInputs<T> with_key_offsets(AttentionInputs<T> tokens) {
  if (tokens.lengths.k_offsets.empty()) tokens.lengths.k_offsets = tokens.lengths.q_offsets;
  return tokens;
}

// A state of zeros, with counts of zero, stands for the beginning, as none does: a forward then has
// nothing to begin with. A backward may have its gradient to find.
CausalState state_before(const CausalState& before, Direction direction) {
  const bool begins = std::all_of(before.counts.begin(), before.counts.end(),
                                  [](int64_t count) { return count == 0; });
  return begins && direction == Direction::kForward ? CausalState{} : before;
}

template <typename T>
class CausalCall {
 public:
  CausalCall(const CausalInputs<T>& inputs, const AttentionOptions& options, Direction direction,
             Launcher& on, std::span<std::byte> scratch)
      : CausalCall(inputs.tokens, state_before(inputs.before, direction), options, direction, on,
                   scratch) {}

  int64_t scratch_bytes() const { return plan_.scratch_bytes; }

  void forward(HeadsView<T> out, const CausalStateAfter& after) {
    plan_.set_tensors(out);
    if (!after.sums.empty()) call_.state_after = after.sums.data();
    if (!after.counts.empty()) call_.counts_after = after.counts.data();
    take_one_magnitude();
    plan_.launch_tables(on_);
    const Call<T> call = has_prefixes() ? find_prefixes_and_state() : without_prefixes();
    launch_causal_forward(on_, call, plan_.padded, plan_.query_grid());
  }

  void backward(const CausalOutputGradients<T>& from, const CausalInputGradients<T>& to) {
    plan_.set_tensors(from.out, to.tokens);
    if (!from.after.empty()) call_.state_gradient_after = from.after.data();
    if (!to.before.empty()) call_.state_gradient_before = to.before.data();
    take_one_magnitude();
    plan_.launch_tables(on_);
    if (!call_.inputs.lengths.key_counts.empty()) launch_clear_uncounted(on_, call_);
    const Call<T> forward = find_prefixes_and_state();
    // Last, where its place is taken by what comes through the gate.
    const bool has_gate = call_.inputs.gate.data, gate_comes_last = !call_.inputs.local.data;
    if (has_gate && !gate_comes_last) find_gate_gradient(forward);
    if (plan_.query_cluster > 0 && call_.has_tail()) {
      call_.out_gradient = run_tail_gradients(on_, call_);
    }
    Call<T> call = forward;
    call.out_gradient = call_.out_gradient;
    launch_causal_query_gradients(on_, call, plan_.padded, plan_.query_grid());
    call = find_suffixes();
    const PassGrid grid{plan_.units(), plan_.most_query_parts, 1, plan_.query_cluster};
    launch_causal_key_gradients(on_, call, plan_.padded, grid);
    if (has_gate && gate_comes_last) find_gate_gradient(forward);
  }

 private:
  CausalCall(const AttentionInputs<T>& tokens, const CausalState& before,
             const AttentionOptions& options, Direction direction, Launcher& on,
             std::span<std::byte> scratch)
      : on_(on),
        plan_(with_key_offsets(tokens), options, direction, on.device(), scratch,
              {.causal = true, .counts_before = before.counts}),
        call_(plan_.call) {
    if (!before.sums.empty()) call_.state_before = before.sums.data();
  }

  void find_gate_gradient(const Call<T>& forward) {
    launch_causal_forward(on_, gate_gradient_call(forward), plan_.padded, plan_.query_grid());
  }

  // Where nothing turns, s and r are one number, unless sums of keys in a state differ. The printed
  // norm takes r for both, and what cancels does so before it is rounded for tensor cores.
  void take_one_magnitude() {
    const bool turns = call_.q_turning.turns || call_.k_turning.turns;
    const bool has_state = call_.state_before || call_.state_gradient_before;
    if (call_.norm == Norm::kPublished && !turns && !has_state) call_.norm = Norm::kPrinted;
  }

  bool is_split() const { return plan_.most_query_parts > 1; }

  // A single part that warpgroups sweep over begins with nothing by itself, and leaves a state.
  bool has_prefixes() const { return plan_.query_cluster == 0 || is_split() || call_.state_before; }
  Call<T> without_prefixes() const {
    Call<T> call = call_;
    call.prefixes = nullptr;
    return call;
  }

  // A single part needs no sums of its own, unless the state after the text is wanted. The call
  // that is returned asks for no state any more.
  Call<T> find_prefixes_and_state() {
    Call<T> call = call_;
    if (is_split() || call.state_after) {
      PassGrid keys = plan_.key_grid();
      keys.chunks = chunks(plan_);
      launch_causal_sum_keys(on_, call, plan_.padded, keys, plan_.query_grid());
    } else {
      call.parts = nullptr;
    }
    launch_scan_keys(on_, call);
    call.state_after = nullptr;
    call.counts_after = nullptr;
    return call;
  }
  // Likewise.
  Call<T> find_suffixes() {
    Call<T> call = call_;
    if (is_split() || call.state_gradient_before) {
      launch_causal_sum_queries(on_, call, plan_.padded, plan_.query_grid());
    } else {
      call.parts = nullptr;
    }
    launch_scan_queries(on_, call);
    return call;
  }

  Launcher& on_;
  Plan<T> plan_;
  Call<T>& call_;
};

template <typename T>
int64_t scratch_bytes(const CausalInputs<T>& inputs, const AttentionOptions& options,
                      Direction direction) {
  Launcher on(nullptr);
  return CausalCall<T>(inputs, options, direction, on, {}).scratch_bytes();
}

constexpr const char* kAdvice = "ask for the scratch bytes with the same device current";

}  // namespace

template <typename T>
int64_t causal_forward_scratch_bytes(const CausalInputs<T>& inputs,
                                     const AttentionOptions& options) {
  check_causal_inputs("causal_forward_scratch_bytes", inputs, options);
  return scratch_bytes(inputs, options, Direction::kForward);
}

template <typename T>
int64_t causal_backward_scratch_bytes(const CausalInputs<T>& inputs,
                                      const AttentionOptions& options) {
  check_causal_inputs("causal_backward_scratch_bytes", inputs, options);
  return scratch_bytes(inputs, options, Direction::kBackward);
}

template <typename T>
void causal_forward(const CausalInputs<T>& inputs, const AttentionOptions& options,
                    HeadsView<T> out, const CausalStateAfter& after, std::span<std::byte> scratch,
                    void* stream) {
  constexpr const char* kWhere = "causal_forward";
  check_causal_inputs(kWhere, inputs, options);
  Launcher on(stream, inputs.tokens.q);
  CausalCall<T> call(inputs, options, Direction::kForward, on, scratch);
  check_causal_forward(kWhere, inputs, out, after, {scratch, call.scratch_bytes(), kAdvice});
  call.forward(out, after);
}

template <typename T>
void causal_backward(const CausalInputs<T>& inputs, const AttentionOptions& options,
                     const CausalOutputGradients<T>& from, const CausalInputGradients<T>& to,
                     std::span<std::byte> scratch, void* stream) {
  constexpr const char* kWhere = "causal_backward";
  check_causal_inputs(kWhere, inputs, options);
  Launcher on(stream, inputs.tokens.q);
  CausalCall<T> call(inputs, options, Direction::kBackward, on, scratch);
  check_causal_backward(kWhere, inputs, from, to, {scratch, call.scratch_bytes(), kAdvice});
  call.backward(from, to);
}

template <typename T>
void causal_step(const AttentionInputs<T>& token, const AttentionOptions& options, HeadsView<T> out,
                 const CausalStateAfter& state, void* stream) {
  check_causal_step("causal_step", token, options, out, state);
  check_heads(token.q.batch, token.q.heads);
  Launcher on(stream, token.q);
  launch_step(on, StepCall<T>(token, options, out, state));
}

#define MALA_INSTANTIATE(T)                                                                        \
  template int64_t causal_forward_scratch_bytes(const CausalInputs<T>&, const AttentionOptions&);  \
  template int64_t causal_backward_scratch_bytes(const CausalInputs<T>&, const AttentionOptions&); \
  template void causal_forward(const CausalInputs<T>&, const AttentionOptions&, HeadsView<T>,      \
                               const CausalStateAfter&, std::span<std::byte>, void*);              \
  template void causal_backward(const CausalInputs<T>&, const AttentionOptions&,                   \
                                const CausalOutputGradients<T>&, const CausalInputGradients<T>&,   \
                                std::span<std::byte>, void*);                                      \
  template void causal_step(const AttentionInputs<T>&, const AttentionOptions&, HeadsView<T>,      \
                            const CausalStateAfter&, void*)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::gpu
