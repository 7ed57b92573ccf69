// The files within a tar archive, without unpacking it.
#pragma once

#include <string>
#include <vector>

#include "mala/core/bytes.h"
#include "mala/core/source.h"

namespace mala::data {

struct TarEntry {
  std::string name;
  Bytes bytes;  // of the archive itself
};

// Plain files, in the archive's order; folders are left out. Reads the old, the POSIX (ustar, pax)
// and GNU's form. Throws mala::Error that names the archive when it is cut short, damaged,
// compressed or no tar at all, or when it has links or sparse files.
std::vector<TarEntry> read_tar(Bytes archive, const Source& source);

}  // namespace mala::data
