// The checksums of zip files and of logs of events.
#pragma once

#include <cstdint>

#include "mala/core/bytes.h"

namespace mala::io {

uint32_t crc32(Bytes bytes);
uint32_t crc32c(Bytes bytes);

}  // namespace mala::io
