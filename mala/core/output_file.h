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

// Removes what killed writers left half written of the files of a folder whose names begin so.
// Nobody may be writing them now.
void remove_parts(const std::string& folder, const std::string& names);

}  // namespace mala
