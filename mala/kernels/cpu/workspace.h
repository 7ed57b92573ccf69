// The caller's scratch, cut into what the passes need.
#pragma once

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

// Memory for sums, operands and tiles. Where there are many units, each is the task of one worker,
// which has room for it; else every part has sums and every unit operands of its own.
template <typename T>
struct Workspace {
  StateLayout layout;
  double* sums;  // StateLayout, slot after slot
  T* operands;   // HeadOperands, slot after slot
  T* tiles;      // Tiles, worker after worker

  Workspace(const StateLayout& of, int64_t sum_slots, int64_t operand_slots, Arena& arena)
      : layout(of) {
    sums = arena.take<double>(sum_slots * layout.size());
    operands = arena.take<T>(operand_slots * operands_size());
    tiles = arena.take<T>(max_workers() * tiles_size());
  }

  double* sums_in(int64_t slot) const { return sums + slot * layout.size(); }

  HeadOperands<T> operands_in(int64_t slot) const {
    const int64_t dim = layout.dim_pad(), value_dim = layout.value_pad();
    const int64_t matrix = layout.dim * value_dim, transposed = layout.value_dim * dim;
    T* next = operands + slot * operands_size();
    auto take = [&next](int64_t count) { return std::exchange(next, next + count); };
    return {.state = take(matrix),
            .state_transposed = take(transposed),
            .key = take(dim),
            .value_mean = take(value_dim),
            .d_state = take(matrix),
            .d_state_transposed = take(transposed),
            .d_key = take(dim),
            .d_rotated_key = take(dim),
            .d_value = take(value_dim)};
  }

  Tiles<T> tiles_of(int64_t worker) const {
    const int64_t dim = kBlock * layout.dim_pad(), value_dim = kBlock * layout.value_pad();
    T* next = tiles + worker * tiles_size();
    auto take = [&next](int64_t count) { return std::exchange(next, next + count); };
    return {.features = take(dim),
            .rotated = take(dim),
            .products = take(dim),
            .d_features = take(dim),
            .values = take(value_dim),
            .outputs = take(value_dim),
            .local = take(value_dim),
            .gate = take(value_dim),
            .group = take(layout.size())};
  }

 private:
  int64_t operands_size() const {
    const int64_t dim = layout.dim_pad(), value_dim = layout.value_pad();
    return 2 * (layout.dim * value_dim + layout.value_dim * dim + dim + value_dim) + dim;
  }

  int64_t tiles_size() const {
    return kBlock * (4 * layout.dim_pad() + 4 * layout.value_pad()) + layout.size();
  }
};

}  // namespace mala::cpu
