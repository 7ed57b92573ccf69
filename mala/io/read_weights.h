// Weights from a file of any kind we know.
#pragma once

#include <string>

#include "mala/io/pth.h"
#include "mala/io/safetensors.h"

namespace mala::io {

// By what is in the file, not by its name: a zip is a checkpoint of torch.save, anything else must
// be safetensors. Names lose the prefix "module.". Throws mala::Error that names the file.
Weights read_weights(const std::string& path, Copy copy = Copy::kTrained);

// The same for bytes in memory, which must outlive the result.
Weights parse_weights(Bytes bytes, const std::string& name, Copy copy = Copy::kTrained);

}  // namespace mala::io
