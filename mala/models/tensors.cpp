// The types that torch and files share.
#include "mala/models/tensors.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "mala/io/safetensors.h"

namespace mala::models {
namespace {

using io::ElementType;
using torch::Tensor;

constexpr std::array<std::pair<ElementType, torch::ScalarType>, 10> kTypes{
    {{ElementType::kFloat64, torch::kFloat64},
     {ElementType::kFloat32, torch::kFloat32},
     {ElementType::kFloat16, torch::kFloat16},
     {ElementType::kBFloat16, torch::kBFloat16},
     {ElementType::kInt64, torch::kInt64},
     {ElementType::kInt32, torch::kInt32},
     {ElementType::kInt16, torch::kInt16},
     {ElementType::kInt8, torch::kInt8},
     {ElementType::kUInt8, torch::kUInt8},
     {ElementType::kBool, torch::kBool}}};

io::Array array_of(const std::string& name, const Tensor& tensor, const Source& source) {
  const auto known = [&](const auto& entry) { return entry.second == tensor.scalar_type(); };
  const auto* type = std::find_if(kTypes.begin(), kTypes.end(), known);
  source.check(type != kTypes.end(), "'", name, "' is of type ", tensor.dtype().name(),
               ", which safetensors files do not hold here; convert the model to float32");
  return {.name = name,
          .type = type->first,
          .shape = tensor.sizes().vec(),
          .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()),
                    static_cast<size_t>(tensor.nbytes())}};
}

}  // namespace

Tensor tensor_of(const io::Array& array, const Source& source) {
  for (const auto& [type, torch_type] : kTypes) {
    if (type != array.type) continue;
    const Tensor tensor = torch::empty(array.shape, torch_type);
    if (!array.bytes.empty()) {
      std::memcpy(tensor.mutable_data_ptr(), array.bytes.data(), array.bytes.size());
    }
    return tensor;
  }
  source.fail(str("'", array.name, "' is of type ", io::names_of(array.type).torch,
                  ", which models do not take; convert it to float32"));
}

void write_tensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata,
                   const Source& source) {
  std::vector<Tensor> copies;  // rows on the CPU, alive until they are written
  std::vector<io::Array> arrays;
  for (const auto& [name, tensor] : tensors) {
    copies.push_back(tensor.detach().cpu().contiguous());
    arrays.push_back(array_of(name, copies.back(), source));
  }
  io::write_safetensors(source.name, arrays, metadata);
}

}  // namespace mala::models
