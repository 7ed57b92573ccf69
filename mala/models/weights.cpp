// Weights between files and models.
#include "mala/models/weights.h"

#include <utility>
#include <vector>

#include "mala/core/error.h"
#include "mala/io/compare.h"
#include "mala/io/read_weights.h"
#include "mala/models/tensors.h"

namespace mala::models {
namespace {

using torch::Tensor;

constexpr const char* kWhere = "load_weights";

NamedTensors tensors_of(const torch::nn::Module& model) {
  NamedTensors all;
  for (const auto& item : model.named_parameters()) all.emplace_back(item.key(), item.value());
  for (const auto& item : model.named_buffers()) all.emplace_back(item.key(), item.value());
  return all;
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
    copies.emplace_back(tensor, tensor_of(*array, {kWhere, path}));
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
  write_tensors(tensors_of(model), metadata, {"save_weights", path});
}

}  // namespace mala::models
