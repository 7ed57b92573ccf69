// Weights between files and models.
#include "mala/models/weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "mala/core/error.h"
#include "mala/io/compare.h"
#include "mala/io/read_weights.h"

namespace mala::models {
namespace {

using io::ElementType;
using torch::Tensor;

constexpr const char* kWhere = "load_weights";

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

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

NamedTensors tensors_of(const torch::nn::Module& model) {
  NamedTensors all;
  for (const auto& item : model.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : model.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
}

// The bytes of a file need not be aligned, so they are copied before torch looks at them.
Tensor tensor_of(const io::Array& array, const std::string& path) {
  for (const auto& [type, torch_type] : kTypes) {
    if (type != array.type) continue;
    const Tensor tensor = torch::empty(array.shape, torch_type);
    if (!array.bytes.empty()) {
      std::memcpy(tensor.mutable_data_ptr(), array.bytes.data(), array.bytes.size());
    }
    return tensor;
  }
  throw Error(str("[", kWhere, "] ", path, ": '", array.name, "' is of type ",
                  io::names_of(array.type).torch,
                  ", which models do not take; convert it to float32"));
}

// Batch norms count their batches, which no result depends on: files of older programs go without.
bool may_be_missing(const std::string& name) { return name.ends_with("num_batches_tracked"); }

void check_names(const NamedTensors& tensors, const io::Weights& weights, const std::string& path) {
  std::vector<io::WantedArray> wanted;
  for (const auto& [name, tensor] : tensors) {
    if (may_be_missing(name) && !weights.find(name)) continue;
    wanted.push_back({name, tensor.sizes().vec()});
  }
  const io::Difference difference = io::compare(weights, wanted);
  check(difference.empty(), kWhere, path, " does not fit the model: ", io::describe(difference),
        "; choose the model that the file was made for");
}

// The kernels reckon RoPE's angles themselves, so a file may not bring others.
void check_angles(const std::string& name, const Tensor& expected, const Tensor& loaded,
                  const std::string& path) {
  if (!name.ends_with("RoPE.angle")) return;
  const Tensor wide = loaded.to(torch::kFloat32);
  check(torch::allclose(wide, expected.cpu().to(torch::kFloat32), 1e-2, 1e-6), kWhere, path, ": '",
        name, "' has other angles than the published ones, which are built in");
}

}  // namespace

void load_weights(torch::nn::Module& model, const io::Weights& weights, const std::string& path) {
  const NamedTensors tensors = tensors_of(model);
  check_names(tensors, weights, path);
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& [name, tensor] : tensors) {
    const io::Array* array = weights.find(name);
    if (!array) continue;
    copies.emplace_back(tensor, tensor_of(*array, path));
    check_angles(name, tensor, copies.back().second, path);
  }
  const torch::NoGradGuard no_gradients;
  for (auto& [to, from] : copies) to.copy_(from);
}

void load_weights(torch::nn::Module& model, const std::string& path, io::Copy copy) {
  load_weights(model, io::read_weights(path, copy), path);
}

void save_weights(const torch::nn::Module& model, const std::string& path,
                  const Metadata& metadata) {
  NamedTensors tensors = tensors_of(model);
  std::vector<io::Array> arrays;
  for (auto& [name, tensor] : tensors) {
    tensor = tensor.detach().cpu().contiguous();
    const auto known = [&](const auto& entry) { return entry.second == tensor.scalar_type(); };
    const auto* type = std::find_if(kTypes.begin(), kTypes.end(), known);
    check(type != kTypes.end(), "save_weights", "'", name, "' is of type ", tensor.dtype().name(),
          ", which safetensors files do not hold here; convert the model to float32");
    arrays.push_back({.name = name,
                      .type = type->first,
                      .shape = tensor.sizes().vec(),
                      .bytes = {static_cast<const std::byte*>(tensor.const_data_ptr()),
                                static_cast<size_t>(tensor.nbytes())}});
  }
  io::write_safetensors(path, arrays, metadata);
}

}  // namespace mala::models
