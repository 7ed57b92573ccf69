// The zip of a checkpoint: its pickle, and its storages by key.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "mala/io/pickle.h"
#include "mala/io/zip.h"

namespace mala::io {

class PthArchive {
 public:
  // Throws mala::Error for what is no checkpoint of torch.save, saying what it looks like.
  PthArchive(Bytes bytes, const Source& source);

  const Source& source() const { return source_; }
  Pickle pickle() const;
  // The bytes of a storage; its checksum is compared when it is first asked for.
  Bytes storage(std::string_view key);

 private:
  const ZipEntry& entry(const std::string& name) const;

  const Source& source_;
  ZipEntries entries_;
  std::string folder_;  // with its slash
  std::map<std::string, Bytes, std::less<>> checked_;
};

}  // namespace mala::io
