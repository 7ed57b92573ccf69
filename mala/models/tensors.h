// Torch's tensors as the named arrays of files, and back.
#pragma once

#include <torch/types.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mala/core/source.h"
#include "mala/io/weights.h"

namespace mala::models {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

// A copy on the CPU: the bytes of a file need not be aligned. Throws mala::Error that names the
// source for a type that torch does not have.
torch::Tensor tensor_of(const io::Array& array, const Source& source);

// Writes the tensors, from any device, as safetensors: beside `source` first, then renamed.
void write_tensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata,
                   const Source& source);

}  // namespace mala::models
