// Tensors in the pickle of a checkpoint: recognising them, and getting at their bytes.
#pragma once

#include <memory>
#include <vector>

#include "mala/io/pth_archive.h"
#include "mala/io/weights.h"

namespace mala::io {

// Makes arrays of a pickle's tensors. Arrays laid out row by row show the archive's bytes, others
// are copied into memory that `owners` keeps.
class PthTensors {
 public:
  PthTensors(const Pickle& pickle, PthArchive& archive, uint64_t file_bytes)
      : pickle_(pickle), archive_(archive), copies_left_(2 * file_bytes) {}

  const Source& source() const { return archive_.source(); }
  bool is_tensor(NodeId id) const;
  // Throws mala::Error that names the array when it contradicts itself or its storage.
  Array read(NodeId id, std::string name);

  std::vector<std::shared_ptr<const void>> take_owners() { return std::move(owners_); }

 private:
  struct Strided;  // what the pickle says of a tensor

  // The call that makes a tensor, below the wrappers of parameters and subclasses; or none.
  struct Call {
    std::string_view function;  // empty: no tensor
    const std::vector<NodeId>* arguments = nullptr;
  };
  Call find_call(NodeId id) const;
  Strided read_call(const Call& call, const std::string& name);
  void read_storage(NodeId id, Strided& tensor);
  Shape integers(NodeId id, const std::string& name) const;
  Bytes copy(const Strided& tensor, uint64_t bytes, const std::string& name);

  const Pickle& pickle_;
  PthArchive& archive_;
  uint64_t copies_left_;  // a file of a few bytes may describe copies of terabytes
  std::vector<std::shared_ptr<const void>> owners_;
};

}  // namespace mala::io
