// How the kernels lay out what they keep: padded rows, blocks of tokens, the state of a head.
#pragma once

#include <cstdint>

namespace mala::cpu {

// Rows of tiles and states are padded to a multiple of the longest vector, so that the inner
// loops need no masks.
constexpr int64_t kPad = 16;

// Tokens that are staged at a time. Their features, their values and a (64, 64) state fit into
// an L1 cache of 32 KiB together.
constexpr int64_t kBlock = 32;

// Tokens whose sums are kept in the element type before they are added to sums in double: long
// enough that the addition costs nothing, short enough that no digits are lost.
constexpr int64_t kGroup = 1024;

constexpr int64_t kMostPad = 256;  // the longest row: of the largest head

constexpr int64_t padded(int64_t dim) { return (dim + kPad - 1) / kPad * kPad; }

// A head's state, or the gradient of one: S (D, E), then two sums over keys (D) and one over
// values (E), every row padded.
struct StateLayout {
  int64_t dim = 0, value_dim = 0;

  int64_t dim_pad() const { return padded(dim); }
  int64_t value_pad() const { return padded(value_dim); }
  int64_t products() const { return 0; }
  int64_t keys() const { return dim * value_pad(); }
  int64_t rotated_keys() const { return keys() + dim_pad(); }
  int64_t values() const { return rotated_keys() + dim_pad(); }
  int64_t size() const { return values() + value_pad(); }
};

}  // namespace mala::cpu
