// Zip files and pickles by hand, right and wrong.
#pragma once

#include <string>
#include <vector>

#include "mala/io/crc32.h"
#include "tests/io/safetensors_bytes.h"

namespace mala::io {

struct MadeEntry {
  std::string name, bytes;
  uint16_t method = 0, flags = 0;
};

struct ZipForm {
  bool wide = false;      // sizes and places in zip64 fields
  std::string comment{};  // behind the last record
  bool without_crc = false;
};

// The numbers that both headers of an entry share, from the flags to the lengths.
inline std::string zip_facts(const MadeEntry& entry, const ZipForm& form, size_t extra) {
  const uint64_t bytes = form.wide ? 0xFFFFFFFF : entry.bytes.size();
  const uint32_t crc = form.without_crc ? 0 : crc32(bytes_of_text(entry.bytes));
  return little_endian(entry.flags, 2) + little_endian(entry.method, 2) + little_endian(0, 4) +
         little_endian(crc, 4) + little_endian(bytes, 4) + little_endian(bytes, 4) +
         little_endian(entry.name.size(), 2) + little_endian(extra, 2);
}

inline std::string make_zip(const std::vector<MadeEntry>& entries, const ZipForm& form = {}) {
  std::string file, directory;
  for (const MadeEntry& entry : entries) {
    const uint64_t at = file.size(), size = entry.bytes.size();
    file += "PK\3\4" + little_endian(20, 2) + zip_facts(entry, form, 0) + entry.name + entry.bytes;
    std::string extra;
    if (form.wide) {
      extra = little_endian(7, 2) + little_endian(2, 2) + "??" + little_endian(1, 2) +
              little_endian(24, 2) + little_endian(size, 8) + little_endian(size, 8) +
              little_endian(at, 8);
    }
    directory += "PK\1\2" + little_endian(20, 4) + zip_facts(entry, form, extra.size()) +
                 little_endian(0, 10) + little_endian(form.wide ? 0xFFFFFFFF : at, 4) + entry.name +
                 extra;
  }
  const uint64_t at = file.size(), count = entries.size(), end = at + directory.size();
  file += directory;
  if (form.wide) {
    file += "PK\6\6" + little_endian(44, 8) + little_endian(0, 12) + little_endian(count, 8) +
            little_endian(count, 8) + little_endian(directory.size(), 8) + little_endian(at, 8);
    file += "PK\6\7" + little_endian(0, 4) + little_endian(end, 8) + little_endian(1, 4);
  }
  return file + "PK\5\6" + little_endian(0, 4) + little_endian(count, 2) + little_endian(count, 2) +
         little_endian(directory.size(), 4) + little_endian(at, 4) +
         little_endian(form.comment.size(), 2) + form.comment;
}

}  // namespace mala::io
