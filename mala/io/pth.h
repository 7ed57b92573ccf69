// Checkpoints that torch.save wrote, without torch: a zip of storages and a pickle about them.
#pragma once

#include <string>

#include "mala/io/weights.h"

namespace mala::io {

// Which weights of a checkpoint with several.
enum class Copy : uint8_t {
  kTrained,   // "state_dict" or "model"; the averaged ones where there is nothing else
  kAveraged,  // "model_ema" or "state_dict_ema", and nothing else
};

// The state dict of a checkpoint: alone in the file, or under a key that training scripts use.
// The file is mapped; arrays that are not laid out row by row are copied. Entries that are no
// tensors are named in `skipped`. Throws mala::Error that names the file and what to do.
Weights read_pth(const std::string& path, Copy copy = Copy::kTrained);

// The same for bytes in memory, which must outlive the result; messages call them `name`.
Weights parse_pth(Bytes bytes, const std::string& name, Copy copy = Copy::kTrained);

// The same for another public entry, whose name the messages carry.
Weights parse_pth(Bytes bytes, const Source& source, Copy copy = Copy::kTrained);

}  // namespace mala::io
