// A file that grows by whole records, for logs.
#pragma once

#include "mala/core/bytes.h"
#include "mala/core/source.h"

namespace mala {

class AppendFile {
 public:
  // Makes the file where there is none. Throws mala::Error that names it when it cannot be written.
  explicit AppendFile(const Source& source);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  // Adds the bytes at the end with one call of the system, so that others see all of them or none.
  void append(Bytes bytes);

 private:
  Source source_;
  int descriptor_ = -1;
};

}  // namespace mala
