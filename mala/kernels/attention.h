// Magnitude-aware linear attention on raw memory, forward and backward. Knows nothing of torch.
//
// For one head, with a feature map phi, rotations R (RoPE), c = scale * kappa, kappa = 1 / M:
//
//   S     = sum_j R_j phi(k_j) (x) v_j        (D, E)  the state
//   s_i   = scale * phi(q_i) . mean_j phi(k_j)        the magnitude of query i
//   out_i = c * gain(s_i) * R_i phi(q_i) . S  -  shift_i * mean_j v_j
//
// `mala` has gain 1 + 1 / (s + eps) and shift s: each query's weights sum to one, as softmax
// weights do, a longer query sharpens them, and the cost is linear in the number of tokens.
// docs/math.md has the other rules, the norms and the gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "mala/core/dtypes.h"
#include "mala/core/error.h"
#include "mala/core/views.h"

namespace mala {

enum class Rule { kMala, kLinear, kInline };

// Where the rotation stands. Without RoPE the three agree, up to eps.
enum class Norm {
  kPublished,  // s before rotation; rows sum to one only without RoPE: the released weights
  kPrinted,    // s after rotation, which can cross zero: the paper as written
  kBalanced,   // s before rotation, and rows that sum to one: text and new models
};

enum class Feature { kElu1, kRelu, kExp, kIdentity };

// How tokens are rotated. Pairs are neighbours: (x0, x1) -> (x0 cos - x1 sin, x1 cos + x0 sin).
struct Rope {
  enum class Kind { kNone, kLine, kGrid, kTable };

  Kind kind = Kind::kNone;
  int64_t offset = 0;          // line and grid: the position of the first token
  int64_t width = 0;           // grid: tokens in a row of the image
  const float* cos = nullptr;  // table: (tokens, D / 2), and sin likewise
  const float* sin = nullptr;
  int64_t table_rows = 0, table_stride = 0;

  static Rope none() { return {}; }

  // Text and audio: token n has position offset + n.
  static Rope line(int64_t offset = 0) { return {.kind = Kind::kLine, .offset = offset}; }

  // Images, row by row: the first half of a head turns with the row, the second with the column.
  static Rope grid(int64_t width, int64_t offset = 0) {
    return {.kind = Kind::kGrid, .offset = offset, .width = width};
  }

  static Rope table(const float* cos, const float* sin, int64_t rows, int64_t stride) {
    return {
        .kind = Kind::kTable, .cos = cos, .sin = sin, .table_rows = rows, .table_stride = stride};
  }
};

struct AttentionOptions {
  Rule rule = Rule::kMala;
  std::optional<Norm> norm = {};  // where absent: published, but balanced for causal mala
  Feature feature = Feature::kElu1;
  bool key_mean = true;              // false: kappa = 1
  std::optional<double> scale = {};  // D^(-1/2) where absent
  double eps = 1e-6;
  Rope q_rope = {}, k_rope = {};  // of one kind as a rule; each has positions of its own
};

// Which tokens belong together, where it is not all of a batch entry: either the number of keys
// that count in each entry, or where sequences begin that are packed into a single entry. Keys
// beyond a count are never read, and their gradients are zero. RoPE restarts with each sequence.
struct Lengths {
  std::span<const int64_t> key_counts = {};  // (B), each 1 to M
  std::span<const int64_t> q_offsets = {};   // (S + 1), rising from 0 to N
  std::span<const int64_t> k_offsets = {};   // (S + 1), rising from 0 to M
  // (S), the width of each image where RoPE goes by a grid; else that of the options.
  std::span<const int64_t> q_widths = {}, k_widths = {};
};

// q (B, H, N, D), k (B, Hk, M, D), v (B, Hk, M, E); Hk divides H, and query head h uses head
// h * Hk / H of k and v. `local` and `gate` (B, H, N, E) may be absent (no data):
// out = (attention + local) * gate. Any strides, D and E multiples of 8 up to 256.
template <typename T>
struct AttentionInputs {
  HeadsView<const T> q = {}, k = {}, v = {};
  HeadsView<const T> local = {}, gate = {};
  Lengths lengths = {};
};

// The shapes of the inputs; `local` and `gate` exactly where the inputs have them.
template <typename T>
struct AttentionGradients {
  HeadsView<T> q = {}, k = {}, v = {};
  HeadsView<T> local = {}, gate = {};
};

// Elements of the state that forward leaves for backward: for each sequence (B, or S where they
// are packed) and each of the Hk heads, one after the other: S (D, E), sum phi(k) (D),
// sum R phi(k) (D), sum v (E).
constexpr int64_t attention_state_size(int64_t sequences, int64_t heads, int64_t dim,
                                       int64_t value_dim) {
  return sequences * heads * (dim * value_dim + 2 * dim + value_dim);
}

// Bytes of scratch that forward and backward need on this machine with the workers it has now:
// grows with B * H and the workers, not with the tokens. Throws mala::Error as forward does.
template <typename T>
int64_t attention_scratch_bytes(const AttentionInputs<T>& inputs, const AttentionOptions& options);

// Writes out (B, H, N, E) and the state. Neither may overlap an input. T is float, BFloat16,
// Float16 or double; everything between reading and writing happens in float, or double for
// double, and is rounded once. Throws mala::Error, before anything is written, when shapes,
// strides or sizes do not fit.
template <typename T>
void attention_forward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                       HeadsView<T> out, std::span<Compute<T>> state, std::span<std::byte> scratch);

// Writes the gradients from that of out and the state that forward left. Throws as forward does.
template <typename T>
void attention_backward(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                        HeadsView<const T> out_gradient, std::span<const Compute<T>> state,
                        const AttentionGradients<T>& gradients, std::span<std::byte> scratch);

}  // namespace mala
