// A file as bytes in memory, read by the operating system when they are touched.
#pragma once

#include "mala/core/bytes.h"
#include "mala/core/source.h"

namespace mala {

// Read-only. The file must not shrink while it is mapped: what is gone cannot be read.
class MappedFile {
 public:
  // Throws mala::Error that names the file when it cannot be read or is not a plain file.
  explicit MappedFile(const Source& source);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Bytes bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace mala
