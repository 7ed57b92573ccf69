// One safetensors file a checkpoint; what is no tensor lies in its metadata as JSON.
#include "mala/train/checkpoint.h"

#include <nlohmann/json.hpp>

#include "mala/io/compare.h"
#include "mala/io/safetensors.h"

namespace mala::train {
namespace {

constexpr const char* kKey = "mala_training";
constexpr const char* kOther = "was it made by `mala train`? Choose another run.out";

std::string text_of(const Progress& progress) {
  nlohmann::json json{{"step", progress.step},
                      {"best_step", progress.best_step},
                      {"examples", progress.examples},
                      {"recipe", progress.recipe}};
  if (progress.best) json["best"] = *progress.best;
  return json.dump();
}

Progress progress_of(const io::Weights& weights, const Source& source) {
  const auto found = weights.metadata.find(kKey);
  source.check(found != weights.metadata.end(), "is no checkpoint of a training; ", kOther);
  const auto json = nlohmann::json::parse(found->second, nullptr, /*allow_exceptions=*/false);
  const auto has = [&](const char* key, auto is_kind) {
    return json.is_object() && json.contains(key) && (json[key].*is_kind)();
  };
  using Json = nlohmann::json;
  source.check(has("step", &Json::is_number_integer) &&
                   has("best_step", &Json::is_number_integer) &&
                   has("examples", &Json::is_number_integer) && has("recipe", &Json::is_string),
               "has no readable account of its training; ", kOther);
  Progress progress{.step = json["step"],
                    .best = {},
                    .best_step = json["best_step"],
                    .examples = json["examples"],
                    .recipe = json["recipe"]};
  if (has("best", &Json::is_number)) progress.best = json["best"].get<double>();
  source.check(progress.step >= 0, "is at step ", progress.step, "; ", kOther);
  return progress;
}

void check_fit(const models::NamedTensors& tensors, const io::Weights& weights,
               const Source& source) {
  std::vector<io::WantedArray> wanted;
  for (const auto& [name, tensor] : tensors) wanted.push_back({name, tensor.sizes().vec()});
  const io::Difference difference = io::compare(weights, wanted);
  source.check(difference.empty(), "does not fit this run: ", io::describe(difference),
               "; resume with the recipe that it was made by, or choose another run.out");
}

}  // namespace

Checkpoints::Checkpoints(const std::string& folder, int64_t keep) : files_(folder), keep_(keep) {}

std::string Checkpoints::save(const Progress& progress, const models::NamedTensors& tensors) const {
  const std::string path = files_.path_of(progress.step);
  models::write_tensors(tensors, {{kKey, text_of(progress)}}, {"train", path});
  files_.keep_last(keep_);
  return path;
}

std::string Checkpoints::newest() const {
  const std::vector<int64_t> numbers = files_.numbers();
  return numbers.empty() ? "" : files_.path_of(numbers.back());
}

std::optional<Progress> Checkpoints::restore(const models::NamedTensors& tensors) const {
  const Source source{"train", newest()};
  if (source.name.empty()) return std::nullopt;
  const io::Weights weights = io::read_safetensors(source.name);
  const Progress progress = progress_of(weights, source);
  check_fit(tensors, weights, source);
  models::NamedTensors copies;
  for (const auto& [name, tensor] : tensors) {
    copies.emplace_back(name, models::tensor_of(*weights.find(name), source));
  }
  const torch::NoGradGuard no_gradients;
  for (size_t i = 0; i < tensors.size(); ++i) {
    torch::Tensor to = tensors[i].second;
    to.copy_(copies[i].second);
  }
  return progress;
}

}  // namespace mala::train
