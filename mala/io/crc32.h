// The checksum of zip files.
#pragma once

#include <cstdint>

#include "mala/core/bytes.h"

namespace mala::io {

uint32_t crc32(Bytes bytes);

}  // namespace mala::io
