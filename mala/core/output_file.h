// A new file that appears whole or not at all.
#pragma once

#include <string>

#include "mala/core/bytes.h"
#include "mala/core/source.h"

namespace mala {

// Written beside the path it is for, and renamed to it by commit(). Without that nothing is left.
class OutputFile {
 public:
  // Throws mala::Error that names the file when the folder does not take it.
  explicit OutputFile(const Source& source);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void write(Bytes bytes);
  void commit();

 private:
  Source source_;
  std::string beside_;
  int descriptor_ = -1;
};

// Removes what writers of this path that were killed left beside it. Nobody may be writing it now.
void remove_parts_of(const std::string& path);

}  // namespace mala
