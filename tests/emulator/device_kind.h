// The kind of GPU that the emulator pretends to have.
#pragma once

#include <cstddef>

namespace mala::emulator {

struct DeviceKind {
  const char* name;
  int major;            // of the compute capability
  size_t shared_bytes;  // that a block can have
};

// As MALA_EMULATOR_KIND names it: sm_90 unless it says otherwise, sm_80 or sm_120. Throws
// mala::Error where it names another.
const DeviceKind& device_kind();

}  // namespace mala::emulator
