// What instructions in PTX become: instructions.py writes calls of these in their place.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "mala/core/dtypes.h"
#include "tests/emulator/failure.h"

namespace mala::emulator {

// Registers have sizes and no types: the same bits, as another type. Whole numbers may change
// their size, and pointers are numbers.
template <typename To, typename From>
To as(const From& from) {
  if constexpr (std::is_pointer_v<From>) {
    return static_cast<To>(reinterpret_cast<uint64_t>(from));
  } else if constexpr (std::is_integral_v<To> && std::is_integral_v<From>) {
    return static_cast<To>(from);
  } else {
    return std::bit_cast<To>(from);
  }
}
template <typename To, typename From>
void set(To& to, const From& from) {
  to = as<To>(from);
}

// Numbers.
inline float from_tf32(uint32_t x) { return std::bit_cast<float>(x & 0xFFFFE000u); }
enum class Ties { kToEven, kAway };
inline uint32_t to_tf32(float x, Ties ties) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if (!std::isfinite(x)) return bits;
  return (bits + (ties == Ties::kAway ? 0x1000u : 0xFFFu + (bits >> 13 & 1u))) & 0xFFFFE000u;
}
template <typename T>
uint32_t pack_two(float high, float low) {
  return uint32_t{round_to<T>(high).bits} << 16 | round_to<T>(low).bits;
}
// Whether the lower (0) or upper (1) of two numbers of bfloat16 is larger than that of others.
inline bool half_is_larger(uint32_t two, uint32_t others, int half) {
  auto of = [half](uint32_t x) {
    return to_float(BFloat16{static_cast<uint16_t>(x >> (16 * half))});
  };
  return of(two) > of(others);
}
// x * y + z, of two numbers of bfloat16 each.
inline uint32_t multiply_add_two(uint32_t x, uint32_t y, uint32_t z) {
  auto of = [](uint32_t two, int half) {
    return static_cast<double>(to_float(BFloat16{static_cast<uint16_t>(two >> (16 * half))}));
  };
  auto at = [&](int half) { return static_cast<float>(of(x, half) * of(y, half) + of(z, half)); };
  return pack_two<BFloat16>(at(1), at(0));
}
inline float flushed(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
inline float exp2_flushed(float x) { return flushed(std::exp2(flushed(x))); }
inline float inverse_flushed(float x) { return flushed(1.0f / flushed(x)); }
inline float max_or_nan(float x, float y) { return std::isnan(x) || x > y ? x : y; }
inline float min_or_nan(float x, float y) { return std::isnan(x) || x < y ? x : y; }

// Shared memory. Addresses are checked: they must lie in the memory of a block and be aligned.
void* shared_array();
uint32_t dynamic_shared_bytes();  // that the kernel was launched with
void* shared_variable(size_t bytes, size_t align, const char* name, const char* function);
uint32_t shared_address(const void* pointer);
void* in_shared(uint64_t address, size_t bytes, const Where& where = Where::current());
void* in_global(uint64_t address, size_t bytes, const Where& where = Where::current());
void copy_async(uint64_t to, uint64_t from, uint32_t bytes, uint32_t source_bytes,
                const Where& where = Where::current());
void commit_copies();
void wait_copies(size_t pending);

// Kernels that follow each other.
void wait_for_kernel_ahead(const Where& where = Where::current());
void let_next_kernel_begin(const Where& where = Where::current());

// Clusters.
uint64_t in_other_block(uint64_t pointer, uint32_t rank, const Where& where = Where::current());
uint32_t rank_in_cluster();
uint32_t blocks_in_cluster();
void arrive_at_cluster(const Where& where = Where::current());
void wait_for_cluster(const Where& where = Where::current());

uint32_t address_in_other_block(uint32_t address, uint32_t rank,
                                const Where& where = Where::current());

// Barriers in shared memory that any thread of the cluster arrives at: turn after turn, when so
// many have come, and the bytes that they told of.
void open_mailbox(uint64_t address, int writers, const Where& where = Where::current());
void arrive_at_mailbox(uint64_t address, int bytes, const Where& where = Where::current());
void send(uint64_t to, const void* bytes, size_t size, uint64_t address,
          const Where& where = Where::current());
void wait_for_mailbox(uint64_t address, int parity, const Where& where = Where::current());

// Barriers: of all threads of the block where their number is 0. Returns how many voted.
int sync_threads(int id, int threads, bool vote, const Where& where = Where::current());

// Warps.
int current_lane();
uint32_t thread_in_block();
void sync_warp(uint32_t mask, const Where& where = Where::current());
void shuffle(uint32_t mask, void* value, size_t bytes, int source, const Where& where);
void load_matrices(uint32_t* to, int count, uint64_t row, bool transposed,
                   const Where& where = Where::current());
void store_matrices(uint32_t* from, int count, uint64_t row, bool transposed,
                    const Where& where = Where::current());
void multiply_tf32(float* sums, const uint32_t* left, const uint32_t* right,
                   const Where& where = Where::current());

// Products of warpgroups.
enum class Operand { kBf16, kTf32 };

// How many columns of the left side one product has: 32 bytes.
constexpr int depth_of(Operand kind) { return kind == Operand::kTf32 ? 8 : 16; }

// One wgmma as one thread asks for it. The left side is in registers or in shared memory.
struct ProductRequest {
  Operand kind = Operand::kBf16;
  int columns = 0;
  float* const* sums = nullptr;
  const uint32_t* left_registers = nullptr;
  uint64_t left = 0, right = 0;  // descriptors
  bool adds = true;
  bool left_transposed = false, right_transposed = false;
  Where where{};
};

void start_product(ProductRequest request);
void commit_products(const Where& where = Where::current());
void wait_products(size_t pending, const Where& where = Where::current());

}  // namespace mala::emulator
