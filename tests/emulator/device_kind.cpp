// What the kinds of GPU differ in, as far as kernels ask.
#include "tests/emulator/device_kind.h"

#include <cstdlib>
#include <string_view>

#include "mala/core/error.h"

namespace mala::emulator {
namespace {

// Of sums on sm_120 nothing is known: as on sm_90.
constexpr DeviceKind kKinds[] = {{"sm_90", 9, 227 * 1024, 32, 25},
                                 {"sm_90_part", 9, 227 * 1024, 32, 25, true},
                                 {"sm_80", 8, 163 * 1024, 16, 24},
                                 {"sm_120", 12, 99 * 1024, 32, 25}};

const DeviceKind& named_kind() {
  const char* name = std::getenv("MALA_EMULATOR_KIND");
  if (!name || !*name) return kKinds[0];
  for (const DeviceKind& kind : kKinds)
    if (std::string_view(name) == kind.name) return kind;
  throw Error(str("[emulator] MALA_EMULATOR_KIND is '", name,
                  "'; sm_90, sm_90_part, sm_80 and sm_120 work"));
}

}  // namespace

const DeviceKind& device_kind() {
  static const DeviceKind& kind = named_kind();
  return kind;
}

}  // namespace mala::emulator
