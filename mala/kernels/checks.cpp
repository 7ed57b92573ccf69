// Checks of a call: sizes, strides, options.
#include "mala/kernels/checks.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "mala/core/overlap.h"

namespace mala {
namespace {

constexpr int64_t kMostDim = 256, kDimStep = 8;

template <typename T>
std::string shape(const HeadsView<T>& view) {
  return str("(", view.batch, ", ", view.heads, ", ", view.tokens, ", ", view.dim, ")");
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
  check(dim % kDimStep == 0 && dim <= kMostDim, where, name, " has head size ", dim,
        "; it must be a multiple of ", kDimStep, " up to ", kMostDim, ": ", to_try);
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

// Keys and values go with each other, and their heads with those of the queries.
template <typename T>
void check_keys(const char* where, const AttentionInputs<T>& inputs) {
  const HeadsView<const T>&q = inputs.q, &k = inputs.k, &v = inputs.v;
  check(k.dim == q.dim, where, "k has head size ", k.dim, " but q has ", q.dim,
        "; queries and keys are compared, so they need the same");
  check(v.tokens == k.tokens, where, "v has ", v.tokens, " tokens but k has ", k.tokens,
        "; every key needs its value");
  check(k.batch == q.batch, where, "k has shape ", shape(k), " but q has ", shape(q),
        "; both need the same batch");
  check(q.heads % k.heads == 0, where, "k has ", k.heads, " heads but q has ", q.heads,
        "; the heads of k and v must divide those of q");
  check_shape(where, "v", v, k, v.dim);
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
  check(options.norm >= Norm::kPublished && options.norm <= Norm::kBalanced, where, "norm ",
        static_cast<int>(options.norm), " is unknown; use published, printed or balanced");
  check(options.feature >= Feature::kElu1 && options.feature <= Feature::kIdentity, where,
        "feature ", static_cast<int>(options.feature),
        " is unknown; use elu1, relu, exp or identity");
  check(std::isfinite(options.scale.value_or(1.0)), where, "scale is ", options.scale.value_or(1.0),
        "; it must be finite: leave it out for dim^(-1/2)");
  check(std::isfinite(options.eps) && options.eps >= 0, where, "eps is ", options.eps,
        "; it must be finite and not negative, such as 1e-6");
}

std::string outside(const char* name, size_t i, int64_t value) {
  return str(name, "[", i, "] is ", value);
}

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

template <typename T>
void check_lengths(const char* where, const AttentionInputs<T>& inputs) {
  const Lengths& lengths = inputs.lengths;
  const bool packed = !lengths.q_offsets.empty() || !lengths.k_offsets.empty();
  if (!lengths.key_counts.empty()) {
    check(!packed, where,
          "key_counts came with offsets; packed sequences have no spare keys: "
          "pass one or the other");
    check_key_counts(where, lengths.key_counts, inputs.k.batch, inputs.k.tokens);
  }
  if (packed) {
    check(inputs.q.batch == 1, where, "packed sequences came in a batch of ", inputs.q.batch,
          "; they must stand one after the other in a batch of 1");
    check(lengths.q_offsets.size() == lengths.k_offsets.size(), where, "q_offsets has ",
          lengths.q_offsets.size(), " numbers but k_offsets ", lengths.k_offsets.size(),
          "; both need one more than there are sequences");
    check_offsets(where, "q_offsets", lengths.q_offsets, inputs.q.tokens);
    check_offsets(where, "k_offsets", lengths.k_offsets, inputs.k.tokens);
  }
  const int64_t sequences =
      packed ? static_cast<int64_t>(lengths.q_offsets.size()) - 1 : inputs.q.batch;
  check_widths(where, "q_widths", lengths.q_widths, sequences);
  check_widths(where, "k_widths", lengths.k_widths, sequences);
}

int64_t longest(std::span<const int64_t> offsets, int64_t tokens) {
  if (offsets.empty()) return tokens;
  int64_t most = 0;
  for (size_t i = 1; i < offsets.size(); ++i) most = std::max(most, offsets[i] - offsets[i - 1]);
  return most;
}

}  // namespace

template <typename T>
void check_inputs(const char* where, const AttentionInputs<T>& inputs,
                  const AttentionOptions& options) {
  const HeadsView<const T>&q = inputs.q, &k = inputs.k, &v = inputs.v;
  check_tensor(where, "q", q);
  check_tensor(where, "k", k);
  check_tensor(where, "v", v);
  constexpr int64_t kMostHeads = int64_t{1} << 36;  // their states could not be addressed
  check(q.batch <= kMostHeads / q.heads, where, "q has ", q.batch, " times ", q.heads,
        " heads, more than have states in memory; check its sizes");
  check_keys(where, inputs);
  // Zeros would not do for every map: elu1 takes them to 1.
  check_dim(where, "q", q.dim,
            "pad q and k with what phi takes to 0 (-1000 for elu1 and exp, 0 for relu and "
            "identity), and give the scale of the true size");
  check_dim(where, "v", v.dim, "pad v with zeros, and cut the output");
  if (inputs.local.data) check_shape(where, "local", inputs.local, q, v.dim);
  if (inputs.gate.data) check_shape(where, "gate", inputs.gate, q, v.dim);
  check_options(where, options);
  check_lengths(where, inputs);
  const Lengths& lengths = inputs.lengths;
  check_rope(where, "q_rope", options.q_rope, longest(lengths.q_offsets, q.tokens), q.dim,
             !lengths.q_widths.empty());
  check_rope(where, "k_rope", options.k_rope, longest(lengths.k_offsets, k.tokens), q.dim,
             !lengths.k_widths.empty());
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
void check_apart(const char* where, const char* name, const HeadsView<T>& output,
                 const char* other_name, const HeadsView<const T>& other) {
  check(!other.data || !overlap(footprint(output), footprint(other)), where, name,
        " shares memory with ", other_name,
        ", which the call still needs; write to a tensor of its own");
}

template <typename T>
void check_buffer_apart(const char* where, const char* name, std::span<const std::byte> buffer,
                        const char* other_name, const HeadsView<const T>& other) {
  const auto begin = reinterpret_cast<uintptr_t>(buffer.data());
  const ByteRange bytes{begin, begin + buffer.size()};
  check(!other.data || !bytes.overlaps(byte_range(footprint(other))), where, name,
        " shares memory with ", other_name, "; give it a buffer of its own");
}

void check_size(const char* where, const char* name, int64_t came, int64_t needed,
                const char* to_try) {
  check(came >= needed, where, name, " has ", came, " but ", needed, " are needed; ", to_try);
}

#define MALA_INSTANTIATE(T)                                                                    \
  template void check_inputs(const char*, const AttentionInputs<T>&, const AttentionOptions&); \
  template void check_input_like(const char*, const char*, const HeadsView<const T>&,          \
                                 const HeadsView<const T>&, int64_t);                          \
  template void check_output(const char*, const char*, const HeadsView<T>&,                    \
                             const HeadsView<const T>&, int64_t);                              \
  template void check_apart(const char*, const char*, const HeadsView<T>&, const char*,        \
                            const HeadsView<const T>&);                                        \
  template void check_buffer_apart(const char*, const char*, std::span<const std::byte>,       \
                                   const char*, const HeadsView<const T>&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala
