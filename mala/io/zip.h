// Zip archives whose entries are stored as they are, which is how torch.save writes.
#pragma once

#include <map>
#include <string_view>

#include "mala/core/bytes.h"
#include "mala/core/source.h"

namespace mala::io {

struct ZipEntry {
  Bytes bytes;        // as they stand in the file
  uint32_t crc = 0;   // 0 where the writer was told not to compute it
  bool plain = true;  // neither compressed nor encrypted
};

// Everything points into the archive's bytes.
using ZipEntries = std::map<std::string_view, ZipEntry>;

bool looks_like_zip(Bytes bytes);

// Throws mala::Error for what contradicts the format.
ZipEntries read_zip(Bytes archive, const Source& source);

// What was written into an entry. Throws when that cannot be told: it is compressed or damaged.
Bytes contents(std::string_view name, const ZipEntry& entry, const Source& source);

}  // namespace mala::io
