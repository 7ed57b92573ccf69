// What both the CPU's and the GPU's entry of the causal form check before anything is written.
#include "mala/kernels/causal_checks.h"

#include <algorithm>
#include <array>

#include "mala/kernels/checks.h"

namespace mala {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 40;

// A state has both its halves, or neither.
template <class Sums, class Counts>
void check_state(const char* where, const char* name, const Sums& sums, const Counts& counts,
                 int64_t sequences, int64_t size) {
  check(sums.empty() == counts.empty(), where, "the state ", name, " has ", sums.size(),
        " sums and ", counts.size(), " counts; pass both, or neither");
  if (sums.empty()) return;
  check(static_cast<int64_t>(sums.size()) == size, where, "the state ", name, " has ", sums.size(),
        " sums but ", size, " are needed; ask attention_state_size for its size");
  check(static_cast<int64_t>(counts.size()) == sequences, where, "the state ", name, " has ",
        counts.size(), " counts for ", sequences, " sequences; it needs one for each");
}

void check_counts(const char* where, std::span<const int64_t> counts) {
  for (size_t i = 0; i < counts.size(); ++i) {
    check(counts[i] >= 0 && counts[i] < kMostTokens, where, "count ", i, " of the state is ",
          counts[i], "; it must be the number of keys in the sums, 0 to 2^40: a state that is ",
          "not used yet has count 0 and sums of 0");
  }
}

// Sums under a count of 0 would be taken for keys that do not exist.
void check_beginnings(const char* where, std::span<const double> sums,
                      std::span<const int64_t> counts) {
  const size_t size = counts.empty() ? 0 : sums.size() / counts.size();
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) continue;
    const std::span<const double> own = sums.subspan(i * size, size);
    check(std::ranges::all_of(own, [](double x) { return x == 0; }), where, "count ", i,
          " of the state is 0, but its sums are not; to begin anew, set both to 0");
  }
}

// A table has a row for every token of the text so far.
void check_table_rows(const char* where, const char* name, const Rope& rope, int64_t tokens) {
  check(rope.kind != Rope::Kind::kTable || rope.table_rows >= tokens, where, name,
        " has a table of ", rope.table_rows, " rows, but with the keys in the state there are ",
        tokens, " tokens; it needs a row for each");
}

template <typename T>
int64_t longest_text(const AttentionInputs<T>& tokens, std::span<const int64_t> counts) {
  const std::span<const int64_t> offsets = tokens.lengths.q_offsets;
  int64_t most = 0;
  const int64_t sequences = sequences_of(tokens.lengths.q_offsets, tokens.q.batch);
  for (int64_t i = 0; i < sequences; ++i) {
    const int64_t own = offsets.empty() ? tokens.q.tokens : offsets[i + 1] - offsets[i];
    most = std::max(most, own + (counts.empty() ? 0 : counts[i]));
  }
  return most;
}

// Everything but the state; the lengths of keys are those of queries.
template <typename T>
void check_tokens(const char* where, const AttentionInputs<T>& tokens,
                  const AttentionOptions& options) {
  AttentionInputs<T> full = tokens;
  Lengths& lengths = full.lengths;
  if (lengths.k_offsets.empty()) lengths.k_offsets = lengths.q_offsets;
  check_inputs(where, full, options);
  check(tokens.q.tokens == tokens.k.tokens, where, "q has ", tokens.q.tokens, " tokens but k has ",
        tokens.k.tokens, "; a causal call has a key for each query: earlier keys come as a state");
  check(std::ranges::equal(lengths.q_offsets, lengths.k_offsets), where,
        "k_offsets differ from q_offsets; a causal call has a key for each query: leave k_offsets "
        "out");
}

// The tokens with those that the state has seen before them.
template <typename T>
void check_texts(const char* where, const AttentionInputs<T>& tokens,
                 const AttentionOptions& options, std::span<const int64_t> counts) {
  check_counts(where, counts);
  const int64_t text = longest_text(tokens, counts);
  check_table_rows(where, "q_rope", options.q_rope, text);
  check_table_rows(where, "k_rope", options.k_rope, text);
}

template <typename T>
int64_t state_size(const AttentionInputs<T>& tokens) {
  return attention_state_size(sequences_of(tokens.lengths.q_offsets, tokens.q.batch),
                              tokens.k.heads, tokens.q.dim, tokens.v.dim);
}

void check_scratch(const char* where, const ScratchNeeds& scratch) {
  check_size(where, "scratch (in bytes)", static_cast<int64_t>(scratch.bytes.size()),
             scratch.needed, scratch.advice);
}

template <typename T>
auto inputs_of(const AttentionInputs<T>& tokens) {
  return std::array{Named<const T>{"q", tokens.q}, Named<const T>{"k", tokens.k},
                    Named<const T>{"v", tokens.v}, Named<const T>{"local", tokens.local},
                    Named<const T>{"gate", tokens.gate}};
}

// Outputs may not overlap anything; only the state after may be that before.
template <typename T>
void check_state_apart(const char* where, const CausalState& before, const CausalStateAfter& after,
                       std::span<const std::byte> scratch,
                       std::initializer_list<Tensors<const T>> tensors) {
  const bool in_place = before.sums.data() == after.sums.data();
  const bool counts_in_place = before.counts.data() == after.counts.data();
  check_buffers_apart<T>(
      where,
      {{"scratch", scratch},
       {"the sums of the state after", std::as_bytes(after.sums)},
       {"the counts of the state after", std::as_bytes(after.counts)},
       {"the sums of the state before",
        in_place ? std::span<const std::byte>() : std::as_bytes(before.sums), true},
       {"the counts of the state before",
        counts_in_place ? std::span<const std::byte>() : std::as_bytes(before.counts), true}},
      tensors);
}

}  // namespace

template <typename T>
void check_causal_inputs(const char* where, const CausalInputs<T>& inputs,
                         const AttentionOptions& options) {
  check_tokens(where, inputs.tokens, options);
  check_state(where, "before", inputs.before.sums, inputs.before.counts,
              sequences_of(inputs.tokens.lengths.q_offsets, inputs.tokens.q.batch),
              state_size(inputs.tokens));
  check_texts(where, inputs.tokens, options, inputs.before.counts);
}

template <typename T>
void check_causal_forward(const char* where, const CausalInputs<T>& inputs, const HeadsView<T>& out,
                          const CausalStateAfter& after, const ScratchNeeds& scratch) {
  const AttentionInputs<T>& tokens = inputs.tokens;
  check_output(where, "out", out, tokens.q, tokens.v.dim);
  check_state(where, "after", after.sums, after.counts,
              sequences_of(tokens.lengths.q_offsets, tokens.q.batch), state_size(tokens));
  check_scratch(where, scratch);
  const std::array read = inputs_of(tokens);
  check_all_apart<T>(where, std::array{Named<T>{"out", out}}, read);
  const std::array written{Named<const T>{"out", out}};
  check_state_apart<T>(where, inputs.before, after, scratch.bytes, {read, written});
}

template <typename T>
void check_causal_backward(const char* where, const CausalInputs<T>& inputs,
                           const CausalOutputGradients<T>& from, const CausalInputGradients<T>& to,
                           const ScratchNeeds& scratch) {
  const AttentionInputs<T>& tokens = inputs.tokens;
  check_input_like(where, "out_gradient", from.out, tokens.q, tokens.v.dim);
  if (!from.after.empty()) {
    check_state_size(where, "the gradient of the state after",
                     static_cast<int64_t>(from.after.size()), state_size(tokens));
  }
  if (!to.before.empty()) {
    check_state_size(where, "the gradient of the state before",
                     static_cast<int64_t>(to.before.size()), state_size(tokens));
  }
  check_scratch(where, scratch);
  const AttentionGradients<T>& gradients = to.tokens;
  check_output(where, "gradient of q", gradients.q, tokens.q, tokens.q.dim);
  check_output(where, "gradient of k", gradients.k, tokens.k, tokens.k.dim);
  check_output(where, "gradient of v", gradients.v, tokens.v, tokens.v.dim);
  check_tail_gradient(where, "gradient of local", gradients.local, tokens.local);
  check_tail_gradient(where, "gradient of gate", gradients.gate, tokens.gate);
  const std::array read = inputs_of(tokens);
  const std::array also_read{Named<const T>{"out_gradient", from.out}};
  const std::array outputs{
      Named<T>{"gradient of q", gradients.q}, Named<T>{"gradient of k", gradients.k},
      Named<T>{"gradient of v", gradients.v}, Named<T>{"gradient of local", gradients.local},
      Named<T>{"gradient of gate", gradients.gate}};
  check_all_apart<T>(where, outputs, read);
  check_all_apart<T>(where, outputs, also_read);
  const auto written = read_only(outputs);
  check_buffers_apart<T>(
      where,
      {{"scratch", scratch.bytes},
       {"the gradient of the state before", std::as_bytes(to.before)},
       {"the gradient of the state after", std::as_bytes(from.after), true},
       {"the sums of the state before", std::as_bytes(inputs.before.sums), true},
       {"the counts of the state before", std::as_bytes(inputs.before.counts), true}},
      {read, also_read, written});
}

template <typename T>
void check_causal_step(const char* where, const AttentionInputs<T>& token,
                       const AttentionOptions& options, const HeadsView<T>& out,
                       const CausalStateAfter& state) {
  const Lengths& lengths = token.lengths;
  check(lengths.key_counts.empty() && lengths.q_offsets.empty() && lengths.k_offsets.empty() &&
            lengths.q_widths.empty() && lengths.k_widths.empty(),
        where, "a step came with key counts, offsets or widths; it takes one token of each ",
        "sequence: use causal_forward");
  check_tokens(where, token, options);
  check(token.q.tokens == 1, where, "q has ", token.q.tokens,
        " tokens; a step takes one of each sequence: use causal_forward for more");
  check(!state.sums.empty(), where, "there is no state; begin with sums and counts of 0");
  check_state(where, "in place", state.sums, state.counts, token.q.batch, state_size(token));
  check_output(where, "out", out, token.q, token.v.dim);
  const std::array read = inputs_of(token);
  check_all_apart<T>(where, std::array{Named<T>{"out", out}}, read);
  const std::array written{Named<const T>{"out", out}};
  check_state_apart<T>(where, {}, state, {}, {read, written});
}

template <typename T>
void check_text_so_far(const char* where, const AttentionInputs<T>& tokens,
                       const AttentionOptions& options, std::span<const double> sums,
                       std::span<const int64_t> counts) {
  check_texts(where, tokens, options, counts);
  check_beginnings(where, sums, counts);
}

#define MALA_INSTANTIATE(T)                                                                        \
  template void check_causal_inputs(const char*, const CausalInputs<T>&, const AttentionOptions&); \
  template void check_causal_forward(const char*, const CausalInputs<T>&, const HeadsView<T>&,     \
                                     const CausalStateAfter&, const ScratchNeeds&);                \
  template void check_causal_backward(const char*, const CausalInputs<T>&,                         \
                                      const CausalOutputGradients<T>&,                             \
                                      const CausalInputGradients<T>&, const ScratchNeeds&);        \
  template void check_causal_step(const char*, const AttentionInputs<T>&, const AttentionOptions&, \
                                  const HeadsView<T>&, const CausalStateAfter&);                   \
  template void check_text_so_far(const char*, const AttentionInputs<T>&, const AttentionOptions&, \
                                  std::span<const double>, std::span<const int64_t>)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala
