// Numbers that are none, in causal sweeps on Hopper: zero times NaN would carry them within a tile
// to tokens that do not see them. They are taken out of the tile, and have their effect afterwards.
#pragma once

#include "mala/kernels/cuda/hopper/causal_sums.cuh"

namespace mala::gpu::hopper {

// Whether something in a part may be no number, so that its tiles have to be looked at: as far as
// its sums tell, or in any case where nobody has summed. By the whole team.
__device__ __forceinline__ bool needs_care(const Call<BFloat16>& call, bool has_sums, int64_t slot,
                                           const Team<kGroupThreads>& team) {
  if (!call.parts) return true;
  bool bad = false;
  if (has_sums) {
    const float* sums = call.parts + slot * call.layout.size();
    const int64_t first = team.thread < 64 ? call.layout.keys() : call.layout.values();
    bad = !is_number(sums[first + team.thread % 64]) ||
          !is_number(sums[call.layout.rotated_keys() + team.thread % 64]);
  }
  return team.any(bad);
}
// Of the keys of a part, or of its queries.
__device__ __forceinline__ bool keys_need_care(const Call<BFloat16>& call, const Task& task,
                                               int64_t part, const Team<kGroupThreads>& team) {
  const Sequence& sequence = task.sequence;
  return needs_care(
      call, part < sequence.k_parts,
      sequence.k_parts_before * call.kv_heads + task.kv_head * sequence.k_parts + part, team);
}
__device__ __forceinline__ bool queries_need_care(const Call<BFloat16>& call, const Task& task,
                                                  const Team<kGroupThreads>& team) {
  return needs_care(call, true, task.slot, team);
}

// zero * x + to, of two numbers: no number once one of them was none.
__device__ __forceinline__ uint32_t add_zero_times(uint32_t to, uint32_t x) {
  asm("fma.rn.bf16x2 %0, %1, %2, %0;" : "+r"(to) : "r"(x), "r"(0));
  return to;
}
// Whether the lane's units of a panel hold numbers alone.
__device__ __forceinline__ bool are_numbers(uint32_t panel, const UnitShare& share) {
  uint32_t none = 0;  // times numbers, but for those that are none
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint4 unit = load_shared(panel + share.place(i));
    none = add_zero_times(none, unit.x);
    none = add_zero_times(none, unit.y);
    none = add_zero_times(none, unit.z);
    none = add_zero_times(none, unit.w);
  }
  return (none & 0x7FFF7FFFu) == 0;
}

// Of numbers of bfloat16. Minus infinity has a feature, which is zero.
__device__ __forceinline__ bool is_broken(uint32_t bits) { return (bits & 0x7F80u) == 0x7F80u; }
constexpr uint32_t kNone = 0xFF80u;
__device__ __forceinline__ bool has_no_feature(uint32_t bits) {
  return is_broken(bits) && bits != kNone;
}
__device__ __forceinline__ uint32_t bits_at(const uint4& unit, int j) {
  const uint32_t twos[4] = {unit.x, unit.y, unit.z, unit.w};
  return twos[j / 2] >> j % 2 * 16 & 0xFFFFu;
}
__device__ __forceinline__ uint4 without(const uint4& unit, uint32_t broken) {
  uint32_t twos[4] = {unit.x, unit.y, unit.z, unit.w};
  for (int j = 0; j < 8; ++j) {
    if (broken >> j & 1) twos[j / 2] &= ~(0xFFFFu << j % 2 * 16);
  }
  return {twos[0], twos[1], twos[2], twos[3]};
}

// The first row of a tile from which on nothing is a number: of all columns because of a key, or of
// one because of a value.
struct BrokenRows {
  int by_key, by_value[64];
};

// A key or value that is no number would reach earlier tokens of its tile, whose weight for it is
// zero: it is taken out, and remembered. By the whole team; whether there was one.
static __device__ __noinline__ bool take_out_broken(uint32_t keys, uint32_t values,
                                                    BrokenRows* broken, int thread, int barrier) {
  using T = Team<kGroupThreads>;
  if (thread < 64) broken->by_value[thread] = kRowTokens;
  if (thread == 0) broken->by_key = kRowTokens;
  T::any_at(barrier, false);
  bool found = false;
  for (int i = thread; i < 8 * kRowTokens; i += kGroupThreads) {
    const uint32_t place = in_panel(i / 8, i % 8);
    const uint4 key = load_shared(keys + place), value = load_shared(values + place);
    uint32_t bad_values = 0;
    for (int j = 0; j < 8; ++j) {
      const bool bad_key = has_no_feature(bits_at(key, j));
      const bool bad_value = is_broken(bits_at(value, j));
      if (bad_key) atomicMin(&broken->by_key, i / 8);
      if (bad_value) atomicMin(&broken->by_value[i % 8 * 8 + j], i / 8);
      if (bad_value) bad_values |= 1u << j;
      found |= bad_key || bad_value;
    }
    store_shared(values + place, without(value, bad_values));
  }
  T::any_at(barrier, false);
  for (int i = thread; i < 8 * kRowTokens; i += kGroupThreads) {
    constexpr uint32_t kTwo = kNone << 16 | kNone;
    if (i / 8 < broken->by_key) continue;
    store_shared(keys + in_panel(i / 8, i % 8), {kTwo, kTwo, kTwo, kTwo});
  }
  return T::any_at(barrier, found);
}

// Rows of a tile whose queries are no numbers. And the last row up to which gradients of keys are
// none, those of values in all columns, or in one; or less than zero.
struct BrokenQueries {
  int is_broken[kRowTokens];
  int of_keys, of_values, by_value[64];
};

// Bits of a lane's two rows: their weights for keys alone are no numbers, or all are.
enum BrokenWeights { kSomeBroken = 1, kAllBroken = 2 };

// Takes queries and gradients of outputs out that are no numbers, and remembers. By the whole team,
// with such bits of the rows of each lane; whether there was one.
static __device__ __noinline__ bool take_out_broken_queries(uint32_t queries, uint32_t gradients,
                                                            BrokenQueries* broken, int upper,
                                                            int lower, int barrier) {
  using T = Team<kGroupThreads>;
  const int thread = static_cast<int>(threadIdx.x % kGroupThreads);
  if (thread < 64) broken->by_value[thread] = -1;
  if (thread < kRowTokens) broken->is_broken[thread] = 0;
  if (thread == 0) broken->of_keys = broken->of_values = -1;
  T::any_at(barrier, false);
  const int row = thread / 32 * 16 + thread % 32 / 4;
  for (int half = 0; half < 2; ++half) {
    const int bits = half ? lower : upper;
    if (bits) atomicMax(&broken->of_keys, row + 8 * half);
    if (bits & kAllBroken) atomicMax(&broken->of_values, row + 8 * half);
  }
  bool found = upper || lower;
  for (int i = thread; i < 8 * kRowTokens; i += kGroupThreads) {
    const uint32_t place = in_panel(i / 8, i % 8);
    const uint4 query = load_shared(queries + place), gradient = load_shared(gradients + place);
    uint32_t bad_queries = 0, bad_gradients = 0;
    for (int j = 0; j < 8; ++j) {
      if (has_no_feature(bits_at(query, j))) bad_queries |= 1u << j;
      if (!is_broken(bits_at(gradient, j))) continue;
      bad_gradients |= 1u << j;
      atomicMax(&broken->by_value[i % 8 * 8 + j], i / 8);
    }
    if (bad_queries) broken->is_broken[i / 8] = 1;
    if (bad_queries) atomicMax(&broken->of_values, i / 8);
    if (bad_queries | bad_gradients) atomicMax(&broken->of_keys, i / 8);
    store_shared(queries + place, without(query, bad_queries));
    store_shared(gradients + place, without(gradient, bad_gradients));
    found |= bad_queries | bad_gradients;
  }
  return T::any_at(barrier, found);
}

}  // namespace mala::gpu::hopper
