// The canonical layouts of shared memory that PTX defines for wgmma, swizzled or not.
#include "tests/emulator/descriptor.h"

#include "tests/emulator/ptx.h"

namespace mala::emulator {
namespace {

constexpr uint32_t kUnitBytes = 16;

// Addresses and strides are kept as 14 bits, in units.
uint32_t bytes_at(uint64_t descriptor, int bit) {
  return static_cast<uint32_t>(descriptor >> bit & 0x3FFF) * kUnitBytes;
}

int element_bytes(Operand kind) { return kind == Operand::kTf32 ? 4 : 2; }

}  // namespace

Side::Side(uint64_t descriptor, Operand kind, bool transposed, const Where& where)
    : kind_(kind),
      start_(bytes_at(descriptor, 0)),
      leading_(bytes_at(descriptor, 16)),
      stride_(bytes_at(descriptor, 32)),
      swizzle_(static_cast<int>(descriptor >> 62)),
      outer_is_fastest_(transposed),
      where_(where) {
  if (descriptor >> 49 & 7) fail_at(where, "a descriptor with a base offset is not emulated");
}

// Of the unit that begins with (outer, inner): eight rows, one behind the other, make a block;
// blocks follow each other at the stride, and along a row at the leading distance.
uint32_t Side::address(int outer, int inner) const {
  const uint32_t per_unit = kUnitBytes / static_cast<uint32_t>(element_bytes(kind_));
  const uint32_t row_units = swizzle_ == 0 ? 1 : 16u >> swizzle_;
  const uint32_t fast = static_cast<uint32_t>(outer_is_fastest_ ? outer : inner) / per_unit;
  const uint32_t slow = static_cast<uint32_t>(outer_is_fastest_ ? inner : outer);
  // Without swizzle, PTX lets the two distances change their meaning with the direction.
  const bool exchanged = swizzle_ == 0 && outer_is_fastest_;
  const uint32_t along = exchanged ? stride_ : leading_, across = exchanged ? leading_ : stride_;
  uint32_t at = start_ + slow % 8 * row_units * kUnitBytes + slow / 8 * across;
  if (swizzle_ != 0 && !outer_is_fastest_) {
    at += fast * kUnitBytes;  // a product is never longer than a row
  } else {
    at += fast % row_units * kUnitBytes + fast / row_units * along;
  }
  const uint32_t mask = swizzle_ == 0 ? 0 : (16u >> swizzle_) - 1;
  return at ^ (at >> 7 & mask) << 4;
}

float Side::element(const void* unit, int i) const {
  if (kind_ == Operand::kTf32) return from_tf32(static_cast<const uint32_t*>(unit)[i]);
  return std::bit_cast<float>(uint32_t{static_cast<const uint16_t*>(unit)[i]} << 16);
}

std::vector<float> Side::read(int first, int count) const {
  const int depth = depth_of(kind_), per_unit = 16 / element_bytes(kind_);
  std::vector<float> to(static_cast<size_t>(count * depth));
  const int slow_end = outer_is_fastest_ ? depth : count;
  const int fast_end = outer_is_fastest_ ? count : depth;
  for (int slow = 0; slow < slow_end; ++slow) {
    for (int fast = 0; fast < fast_end; fast += per_unit) {
      const int outer = outer_is_fastest_ ? fast : slow, inner = outer_is_fastest_ ? slow : fast;
      const void* unit = in_shared(address(first + outer, inner), kUnitBytes, where_);
      const int step = outer_is_fastest_ ? depth : 1;
      for (int i = 0; i < per_unit; ++i) to[outer * depth + inner + i * step] = element(unit, i);
    }
  }
  return to;
}

}  // namespace mala::emulator
