// The caller's scratch, cut into what the passes need.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "mala/core/parallel.h"
#include "mala/kernels/cpu/layout.h"
#include "mala/kernels/cpu/passes.h"

namespace mala::cpu {

// Hands out aligned pieces of a buffer; without one it only counts.
class Arena {
 public:
  explicit Arena(std::byte* base) : base_(base) {
    const auto address = reinterpret_cast<uintptr_t>(base);
    used_ = static_cast<int64_t>((kAlignment - address % kAlignment) % kAlignment);
  }

  template <typename T>
  T* take(int64_t count) {
    const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
    std::byte* piece = base_ ? base_ + used_ : nullptr;
    used_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return reinterpret_cast<T*>(piece);
  }

  // Enough for a buffer of any alignment.
  int64_t bytes_needed() const { return used_ + kAlignment; }

 private:
  static constexpr int64_t kAlignment = 64;
  std::byte* base_;
  int64_t used_ = 0;
};

// One head's tokens as parts of equal size. It follows from the sizes alone, never from the
// number of workers: the order of the sums, and so every bit, stays the same.
struct Split {
  // Parts of fewer tokens would not be worth their own sums; more tasks would not fill more
  // cores, and each costs the memory of a state.
  static constexpr int64_t kLeastTokens = 256, kMostTasks = 64;

  int64_t tokens, parts, part_tokens;

  Split(int64_t tokens_of_head, int64_t heads) : tokens(tokens_of_head) {
    const int64_t most = std::max<int64_t>(1, kMostTasks / heads);
    const int64_t wanted = std::min(most, divide_up(tokens, kLeastTokens));
    part_tokens = divide_up(divide_up(tokens, wanted), kBlock) * kBlock;
    parts = divide_up(tokens, part_tokens);
  }

  Span part(int64_t i) const {
    return {i * part_tokens, std::min(part_tokens, tokens - i * part_tokens)};
  }

  static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
};

template <typename T>
struct Workspace {
  StateLayout layout;
  Split queries, keys;
  double* sums;  // a StateLayout for each part of each head
  T* operands;   // HeadOperands, head after head
  T* tiles;      // Tiles, worker after worker

  Workspace(const AttentionInputs<T>& inputs, Arena& arena)
      : layout{inputs.q.dim, inputs.v.dim},
        queries(inputs.q.tokens, inputs.q.batch * inputs.q.heads),
        keys(inputs.k.tokens, inputs.q.batch * inputs.q.heads) {
    const int64_t heads = inputs.q.batch * inputs.q.heads;
    sums = arena.take<double>(heads * std::max(queries.parts, keys.parts) * layout.size());
    operands = arena.take<T>(heads * operands_size());
    tiles = arena.take<T>(max_workers() * tiles_size());
  }

  HeadOperands<T> head(int64_t index) const {
    const int64_t dim = layout.dim_pad(), value_dim = layout.value_pad();
    const int64_t matrix = layout.dim * value_dim, transposed = layout.value_dim * dim;
    T* next = operands + index * operands_size();
    auto take = [&next](int64_t count) { return std::exchange(next, next + count); };
    return {.state = take(matrix),
            .state_transposed = take(transposed),
            .key = take(dim),
            .value_mean = take(value_dim),
            .d_state = take(matrix),
            .d_state_transposed = take(transposed),
            .d_key = take(dim),
            .d_value = take(value_dim)};
  }

  Tiles<T> tiles_of(int64_t worker) const {
    const int64_t dim = kBlock * layout.dim_pad(), value_dim = kBlock * layout.value_pad();
    T* next = tiles + worker * tiles_size();
    auto take = [&next](int64_t count) { return std::exchange(next, next + count); };
    return {.raw = take(dim),
            .features = take(dim),
            .rotated = take(dim),
            .products = take(dim),
            .values = take(value_dim),
            .outputs = take(value_dim),
            .local = take(value_dim),
            .gate = take(value_dim),
            .group = take(layout.size())};
  }

 private:
  int64_t operands_size() const {
    const int64_t dim = layout.dim_pad(), value_dim = layout.value_pad();
    return 2 * (layout.dim * value_dim + layout.value_dim * dim + dim + value_dim);
  }

  int64_t tiles_size() const {
    return kBlock * (4 * layout.dim_pad() + 4 * layout.value_pad()) + layout.size();
  }
};

}  // namespace mala::cpu
