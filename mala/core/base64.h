// Bytes as text that may stand in a page or in JSON.
#pragma once

#include <string>

#include "mala/core/bytes.h"

namespace mala {

// The alphabet of RFC 4648, padded with '='.
std::string to_base64(Bytes bytes);

}  // namespace mala
