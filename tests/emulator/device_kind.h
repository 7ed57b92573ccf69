// The kind of GPU that the emulator pretends to have.
#pragma once

#include <cstddef>

namespace mala::emulator {

struct DeviceKind {
  const char* name;
  int major;            // of the compute capability
  size_t shared_bytes;  // that a block can have
  // Of tensor cores: what they add at once, in bytes of a row of the left side, and how many bits
  // below the largest exponent they keep of it.
  int product_bytes, sum_bits;
  // Whether others have the rest of it, so that blocks that wait for each other may not fit at
  // once: such launches are refused.
  bool is_part = false;
};

// As MALA_EMULATOR_KIND names it: sm_90 unless it says otherwise, a part of such a GPU
// (sm_90_part), sm_80 or sm_120. Throws mala::Error where it names another.
const DeviceKind& device_kind();

}  // namespace mala::emulator
