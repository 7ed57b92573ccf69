// Puts the model's own head in place of the file's before it is loaded.
#include "mala/models/fine_tune.h"

#include "mala/io/read_weights.h"
#include "mala/models/weights.h"

namespace mala::models {
namespace {

constexpr std::string_view kHead = "head.";

bool fits(const torch::nn::Module& model, const io::Weights& weights) {
  for (const auto& item : model.named_parameters()) {
    const io::Array* array = weights.find(item.key());
    if (!item.key().starts_with(kHead) || !array) continue;
    if (array->shape != item.value().sizes().vec()) return false;
  }
  return true;
}

}  // namespace

bool load_all_but_other_head(torch::nn::Module& model, const std::string& path) {
  io::Weights weights = io::read_weights(path);
  const bool takes_head = fits(model, weights);
  if (!takes_head) {
    std::erase_if(weights.arrays,
                  [](const io::Array& array) { return array.name.starts_with(kHead); });
    for (const auto& item : model.named_parameters()) {
      if (!item.key().starts_with(kHead)) continue;
      const torch::Tensor own = item.value().detach().cpu().to(torch::kFloat32).contiguous();
      weights.owners.push_back(std::make_shared<torch::Tensor>(own));
      weights.arrays.push_back({.name = item.key(),
                                .type = io::ElementType::kFloat32,
                                .shape = own.sizes().vec(),
                                .bytes = {static_cast<const std::byte*>(own.const_data_ptr()),
                                          static_cast<size_t>(own.nbytes())}});
    }
    io::sort_by_name(weights, {"load_weights", path});
  }
  load_weights(model, weights, path);
  return takes_head;
}

}  // namespace mala::models
