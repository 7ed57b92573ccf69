// Checks of a call: sizes, strides, options.
#include "mala/kernels/checks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <ostream>

#include "mala/core/overlap.h"

namespace mala {
namespace {

constexpr int64_t kMostDim = 256, kDimStep = 8;

// For messages: written only where one is needed, since every call is checked.
struct ShapeText {
  int64_t batch, heads, tokens, dim;

  friend std::ostream& operator<<(std::ostream& out, const ShapeText& x) {
    return out << "(" << x.batch << ", " << x.heads << ", " << x.tokens << ", " << x.dim << ")";
  }
};

template <typename T>
ShapeText shape(const HeadsView<T>& view) {
  return {view.batch, view.heads, view.tokens, view.dim};
}

// Sizes whose addresses do not fit into 64 bits come from damaged callers.
template <typename T>
bool addressable(const HeadsView<T>& view) {
  constexpr int64_t kMost = int64_t{1} << 58;
  const Footprint print = footprint(view);
  int64_t elements = 1, reach = 0;
  for (size_t i = 0; i < 4; ++i) {
    const int64_t size = print.sizes[i], stride = print.strides[i];
    if (stride <= -kMost || stride >= kMost) return false;
    int64_t extent = 0;
    if (__builtin_mul_overflow(elements, size, &elements)) return false;
    if (__builtin_mul_overflow(size - 1, std::abs(stride), &extent)) return false;
    if (__builtin_add_overflow(reach, extent, &reach)) return false;
  }
  return elements < kMost && reach < kMost;
}

template <typename T>
void check_tensor(const char* where, const char* name, const HeadsView<T>& view) {
  check(view.batch > 0 && view.heads > 0 && view.tokens > 0 && view.dim > 0, where, name,
        " has shape ", shape(view),
        "; every size of (batch, heads, tokens, dim) must be at least 1");
  check(view.data != nullptr, where, name, " has no data; pass the address of its first element");
  check(reinterpret_cast<uintptr_t>(view.data) % alignof(T) == 0, where, name,
        " begins at an address that is no multiple of ", alignof(T),
        ", the size of its elements; copy it to one");
  check(addressable(view), where, name, " has shape ", shape(view),
        ", more elements than memory can hold; check its sizes and strides");
}

void check_dim(const char* where, const char* name, int64_t dim, const char* to_try) {
  check(dim > 0 && dim % kDimStep == 0 && dim <= kMostDim, where, name, " has head size ", dim,
        "; it must be a multiple of ", kDimStep, " up to ", kMostDim, ": ", to_try);
}

// Zeros would not do for every map: elu1 takes them to 1.
void check_compared_dim(const char* where, const char* name, int64_t dim) {
  check_dim(where, name, dim,
            "pad q and k with what phi takes to 0 (-1000 for elu1 and exp, 0 for relu and "
            "identity), and give the scale of the true size");
}

void check_value_dim(const char* where, int64_t dim) {
  check_dim(where, "v", dim, "pad v with zeros, and cut the output");
}

template <typename T>
void check_most_heads(const char* where, const char* name, const HeadsView<const T>& view) {
  constexpr int64_t kMostHeads = int64_t{1} << 36;  // their states could not be addressed
  check(view.batch <= kMostHeads / view.heads, where, name, " has ", view.batch, " times ",
        view.heads, " heads, more than have states in memory; check its sizes");
}

// `view` must have the batch, heads and tokens of `like`, and the dim given.
template <typename T>
void check_shape(const char* where, const char* name, const HeadsView<const T>& view,
                 const HeadsView<const T>& like, int64_t dim) {
  check_tensor(where, name, view);
  HeadsView<const T> needed = like;
  needed.dim = dim;
  check(view.batch == like.batch && view.heads == like.heads && view.tokens == like.tokens &&
            view.dim == dim,
        where, name, " has shape ", shape(view), " but must have ", shape(needed),
        " to go with the other tensors of the call");
}

template <typename T>
void check_values(const char* where, const HeadsView<const T>& v, const HeadsView<const T>& k) {
  check(v.tokens == k.tokens, where, "v has ", v.tokens, " tokens but k has ", k.tokens,
        "; every key needs its value");
  check_shape(where, "v", v, k, v.dim);
}

template <typename T>
void check_tail(const char* where, const HeadsView<const T>& local, const HeadsView<const T>& gate,
                const HeadsView<const T>& q, int64_t value_dim) {
  if (local.data) check_shape(where, "local", local, q, value_dim);
  if (gate.data) check_shape(where, "gate", gate, q, value_dim);
}

// Keys and values go with each other, and their heads with those of the queries.
template <typename T>
void check_keys(const char* where, const AttentionInputs<T>& inputs) {
  const HeadsView<const T>&q = inputs.q, &k = inputs.k, &v = inputs.v;
  check(k.dim == q.dim, where, "k has head size ", k.dim, " but q has ", q.dim,
        "; queries and keys are compared, so they need the same");
  check(k.batch == q.batch, where, "k has shape ", shape(k), " but q has ", shape(q),
        "; both need the same batch");
  check(q.heads % k.heads == 0, where, "k has ", k.heads, " heads but q has ", q.heads,
        "; the heads of k and v must divide those of q");
  check_values(where, v, k);
}

void check_table(const char* where, const char* name, const Rope& rope, int64_t tokens,
                 int64_t dim) {
  check(rope.cos && rope.sin, where, name,
        " asks for a table but has no cos or no sin; pass both, (tokens, dim / 2) each");
  check(rope.table_rows >= tokens, where, name, " has a table of ", rope.table_rows, " rows for ",
        tokens, " tokens; it needs a row for each token");
  constexpr int64_t kMostStride = int64_t{1} << 40;
  check(rope.table_stride >= dim / 2 && rope.table_stride < kMostStride, where, name,
        " has a table with row stride ", rope.table_stride, "; its rows hold dim / 2 = ", dim / 2,
        " numbers");
}

void check_rope(const char* where, const char* name, const Rope& rope, int64_t tokens, int64_t dim,
                bool has_widths) {
  constexpr int64_t kMostPosition = int64_t{1} << 40;
  check(rope.kind >= Rope::Kind::kNone && rope.kind <= Rope::Kind::kTable, where, name,
        " has kind ", static_cast<int>(rope.kind), "; use none, line, grid or table");
  check(rope.offset >= 0 && rope.offset < kMostPosition, where, name, " has offset ", rope.offset,
        "; positions count from 0 to 2^40");
  if (rope.kind == Rope::Kind::kGrid && !has_widths) {
    check(rope.width > 0, where, name, " has width ", rope.width,
          "; a grid needs the number of tokens in a row of the image, at least 1");
  }
  if (rope.kind == Rope::Kind::kTable) check_table(where, name, rope, tokens, dim);
}

void check_options(const char* where, const AttentionOptions& options) {
  check(options.rule >= Rule::kMala && options.rule <= Rule::kInline, where, "rule ",
        static_cast<int>(options.rule), " is unknown; use mala, linear or inline");
  const Norm norm = options.norm.value_or(Norm::kPublished);
  check(norm >= Norm::kPublished && norm <= Norm::kBalanced, where, "norm ", static_cast<int>(norm),
        " is unknown; use published, printed or balanced");
  check(options.feature >= Feature::kElu1 && options.feature <= Feature::kIdentity, where,
        "feature ", static_cast<int>(options.feature),
        " is unknown; use elu1, relu, exp or identity");
  check(std::isfinite(options.scale.value_or(1.0)), where, "scale is ", options.scale.value_or(1.0),
        "; it must be finite: leave it out for dim^(-1/2)");
  check(std::isfinite(options.eps) && options.eps >= 0, where, "eps is ", options.eps,
        "; it must be finite and not negative, such as 1e-6");
}

struct ElementText {
  const char* name;
  size_t index;
  int64_t value;

  friend std::ostream& operator<<(std::ostream& out, const ElementText& x) {
    return out << x.name << "[" << x.index << "] is " << x.value;
  }
};

ElementText outside(const char* name, size_t i, int64_t value) { return {name, i, value}; }

void check_key_counts(const char* where, std::span<const int64_t> counts, int64_t batch,
                      int64_t keys) {
  check(static_cast<int64_t>(counts.size()) == batch, where, "key_counts has ", counts.size(),
        " numbers for a batch of ", batch, "; it needs one for each entry");
  for (size_t i = 0; i < counts.size(); ++i) {
    check(counts[i] >= 1 && counts[i] <= keys, where, outside("key_counts", i, counts[i]),
          "; each must be 1 to ", keys, ", the number of keys",
          counts[i] == 0 ? ": leave empty entries out" : "");
  }
}

void check_offsets(const char* where, const char* name, std::span<const int64_t> offsets,
                   int64_t tokens) {
  check(offsets.size() >= 2, where, name, " has ", offsets.size(),
        " numbers; S sequences need S + 1: where each begins, and the end");
  check(offsets.front() == 0, where, outside(name, 0, offsets.front()), "; it must begin at 0");
  for (size_t i = 1; i < offsets.size(); ++i) {
    check(offsets[i] > offsets[i - 1], where, outside(name, i, offsets[i]), " after ",
          offsets[i - 1], "; offsets must rise: leave empty sequences out");
  }
  check(offsets.back() == tokens, where, outside(name, offsets.size() - 1, offsets.back()),
        ", the last; it must be the number of tokens, ", tokens);
}

void check_widths(const char* where, const char* name, std::span<const int64_t> widths,
                  int64_t sequences) {
  if (widths.empty()) return;
  check(static_cast<int64_t>(widths.size()) == sequences, where, name, " has ", widths.size(),
        " numbers for ", sequences, " sequences; it needs one for each, or none");
  for (size_t i = 0; i < widths.size(); ++i) {
    check(widths[i] > 0, where, outside(name, i, widths[i]),
          "; it must be the number of tokens in a row of that image, at least 1");
  }
}

void check_packed_batch(const char* where, int64_t batch) {
  check(batch == 1, where, "packed sequences came in a batch of ", batch,
        "; they must stand one after the other in a batch of 1");
}

// Key counts, where there are any, fit the keys and come without offsets.
template <typename T>
void check_spare_keys(const char* where, const Lengths& lengths, bool packed,
                      const HeadsView<const T>& k) {
  if (lengths.key_counts.empty()) return;
  check(!packed, where,
        "key_counts came with offsets; packed sequences have no spare keys: "
        "pass one or the other");
  check_key_counts(where, lengths.key_counts, k.batch, k.tokens);
}

// The lengths of one side of a call, and what messages call them.
struct Side {
  std::span<const int64_t> offsets, widths;
  const char *offsets_name, *widths_name;
};

Side query_side(const Lengths& lengths) {
  return {lengths.q_offsets, lengths.q_widths, "q_offsets", "q_widths"};
}
Side key_side(const Lengths& lengths) {
  return {lengths.k_offsets, lengths.k_widths, "k_offsets", "k_widths"};
}

// Returns the number of sequences.
template <typename T>
int64_t check_side(const char* where, const Side& side, const HeadsView<const T>& tokens) {
  if (!side.offsets.empty()) {
    check_packed_batch(where, tokens.batch);
    check_offsets(where, side.offsets_name, side.offsets, tokens.tokens);
  }
  const int64_t sequences = sequences_of(side.offsets, tokens.batch);
  check_widths(where, side.widths_name, side.widths, sequences);
  return sequences;
}

template <typename T>
void check_lengths(const char* where, const AttentionInputs<T>& inputs) {
  const Lengths& lengths = inputs.lengths;
  const bool packed = !lengths.q_offsets.empty() || !lengths.k_offsets.empty();
  check_spare_keys(where, lengths, packed, inputs.k);
  if (packed) check_packed_batch(where, inputs.q.batch);
  check(lengths.q_offsets.size() == lengths.k_offsets.size(), where, "q_offsets has ",
        lengths.q_offsets.size(), " numbers but k_offsets ", lengths.k_offsets.size(),
        "; both need one more than there are sequences");
  check_side(where, query_side(lengths), inputs.q);
  check_side(where, key_side(lengths), inputs.k);
}

int64_t longest(std::span<const int64_t> offsets, int64_t tokens) {
  if (offsets.empty()) return tokens;
  int64_t most = 0;
  for (size_t i = 1; i < offsets.size(); ++i) most = std::max(most, offsets[i] - offsets[i - 1]);
  return most;
}

// The state of all keys: a number of keys for each sequence, and sums for each of its heads.
template <typename T>
void check_total(const char* where, const TotalState<T>& state, int64_t sequences, int64_t dim,
                 int64_t value_dim) {
  constexpr int64_t kMostKeys = int64_t{1} << 40;
  const std::span<const int64_t> counts = state.key_counts;
  check(static_cast<int64_t>(counts.size()) == sequences, where, "the state's key_counts has ",
        counts.size(), " numbers for ", sequences, " sequences; it needs one for each");
  for (size_t i = 0; i < counts.size(); ++i) {
    check(counts[i] >= 1 && counts[i] < kMostKeys, where,
          outside("the state's key_counts", i, counts[i]),
          "; each must be 1 to 2^40: add the numbers of keys of all callers, as their sums");
  }
  check_state_size(where, "state", static_cast<int64_t>(state.sums.size()),
                   attention_state_size(sequences, state.heads, dim, value_dim));
}

}  // namespace

template <typename T>
void check_inputs(const char* where, const AttentionInputs<T>& inputs,
                  const AttentionOptions& options) {
  const HeadsView<const T>&q = inputs.q, &k = inputs.k, &v = inputs.v;
  check_tensor(where, "q", q);
  check_tensor(where, "k", k);
  check_tensor(where, "v", v);
  check_most_heads(where, "q", q);
  check_keys(where, inputs);
  check_compared_dim(where, "q", q.dim);
  check_value_dim(where, v.dim);
  check_tail(where, inputs.local, inputs.gate, q, v.dim);
  check_options(where, options);
  check_lengths(where, inputs);
  const Lengths& lengths = inputs.lengths;
  check_rope(where, "q_rope", options.q_rope, longest(lengths.q_offsets, q.tokens), q.dim,
             !lengths.q_widths.empty());
  check_rope(where, "k_rope", options.k_rope, longest(lengths.k_offsets, k.tokens), q.dim,
             !lengths.k_widths.empty());
}

template <typename T>
void check_keys_inputs(const char* where, const KeysInputs<T>& inputs,
                       const AttentionOptions& options) {
  const HeadsView<const T>&k = inputs.k, &v = inputs.v;
  const Lengths& lengths = inputs.lengths;
  check_tensor(where, "k", k);
  check_tensor(where, "v", v);
  check_most_heads(where, "k", k);
  check_values(where, v, k);
  check_compared_dim(where, "k", k.dim);
  check_value_dim(where, v.dim);
  check_options(where, options);
  check_spare_keys(where, lengths, !lengths.k_offsets.empty(), k);
  check_side(where, key_side(lengths), k);
  check_rope(where, "k_rope", options.k_rope, longest(lengths.k_offsets, k.tokens), k.dim,
             !lengths.k_widths.empty());
}

template <typename T>
void check_queries_inputs(const char* where, const QueriesInputs<T>& inputs,
                          const AttentionOptions& options, const TotalState<T>& state,
                          int64_t value_dim) {
  const HeadsView<const T>& q = inputs.q;
  const Lengths& lengths = inputs.lengths;
  check_tensor(where, "q", q);
  check_most_heads(where, "q", q);
  check(state.heads > 0 && q.heads % state.heads == 0, where, "the state has ", state.heads,
        " heads but q has ", q.heads, "; the heads of k and v must divide those of q");
  check_compared_dim(where, "q", q.dim);
  check_value_dim(where, value_dim);
  check_tail(where, inputs.local, inputs.gate, q, value_dim);
  check_options(where, options);
  const int64_t sequences = check_side(where, query_side(lengths), q);
  check_total(where, state, sequences, q.dim, value_dim);
  check_rope(where, "q_rope", options.q_rope, longest(lengths.q_offsets, q.tokens), q.dim,
             !lengths.q_widths.empty());
}

template <typename T>
void check_input_like(const char* where, const char* name, const HeadsView<const T>& input,
                      const HeadsView<const T>& like, int64_t dim) {
  check_shape(where, name, input, like, dim);
}

template <typename T>
void check_output(const char* where, const char* name, const HeadsView<T>& output,
                  const HeadsView<const T>& like, int64_t dim) {
  check_shape<T>(where, name, output, like, dim);
  check(!overlaps_itself(footprint(output)), where, name, " has strides (", output.batch_stride,
        ", ", output.head_stride, ", ", output.token_stride, ", ", output.dim_stride,
        ") for shape ", shape(output),
        ", which put several elements at one address; write to a tensor of its own");
}

template <typename T>
void check_tail_gradient(const char* where, const char* name, const HeadsView<T>& gradient,
                         const HeadsView<const T>& input) {
  check((gradient.data != nullptr) == (input.data != nullptr), where, name, " is ",
        gradient.data ? "given" : "missing", " but its input is ", input.data ? "given" : "missing",
        "; pass both or neither");
  if (input.data) check_output(where, name, gradient, input, input.dim);
}

#define MALA_INSTANTIATE(T)                                                                    \
  template void check_inputs(const char*, const AttentionInputs<T>&, const AttentionOptions&); \
  template void check_keys_inputs(const char*, const KeysInputs<T>&, const AttentionOptions&); \
  template void check_queries_inputs(const char*, const QueriesInputs<T>&,                     \
                                     const AttentionOptions&, const TotalState<T>&, int64_t);  \
  template void check_input_like(const char*, const char*, const HeadsView<const T>&,          \
                                 const HeadsView<const T>&, int64_t);                          \
  template void check_output(const char*, const char*, const HeadsView<T>&,                    \
                             const HeadsView<const T>&, int64_t);                              \
  template void check_tail_gradient(const char*, const char*, const HeadsView<T>&,             \
                                    const HeadsView<const T>&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala
