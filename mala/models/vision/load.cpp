// Finds out which model a file is for, makes it and fills it.
#include "mala/models/vision/load.h"

#include "mala/core/error.h"
#include "mala/io/read_weights.h"
#include "mala/models/vision/recognise.h"
#include "mala/models/weights.h"

namespace mala::models {
namespace {

// Weights without a head are refused later, by name.
VisionConfig named(const std::string& name, const io::Weights& weights) {
  const VisionConfig config = vision_config(name);
  const int64_t classes = count_classes(weights);
  return classes > 0 ? with_classes(config, classes) : config;
}

VisionConfig choose(const VisionRequest& request, const Card& card, const io::Weights& weights) {
  if (!request.model.empty()) return named(request.model, weights);
  // Names such as "mavit" say no more than the shapes do.
  for (const std::string& known : vision_names()) {
    if (card.model == known) return named(known, weights);
  }
  return recognise(weights, request.weights);
}

std::variant<Mavit, Deit> make(const VisionConfig& config) {
  if (const auto* mavit = std::get_if<MavitConfig>(&config)) return Mavit(*mavit);
  return Deit(std::get<DeitConfig>(config));
}

void complete(Card& card, const VisionConfig& config) {
  card.model = name_of(config);
  card.mixers = mixers_of(config);
  if (card.image_size == 0) card.image_size = image_size_of(config);
}

LoadedVision untrained(const VisionRequest& request) {
  check(!request.model.empty(), "load_vision", "neither weights nor the name of a model; give one");
  VisionConfig config = vision_config(request.model);
  if (!request.mixers.empty()) config = with_mixers(config, request.mixers);
  torch::manual_seed(0);  // the same answers each time, though they mean nothing
  LoadedVision loaded{.config = config, .card = {}, .model = make(config)};
  complete(loaded.card, config);
  return loaded;
}

}  // namespace

LoadedVision load_vision(const VisionRequest& request) {
  if (request.weights.empty()) return untrained(request);
  const Source source{"load_vision", request.weights};
  const io::Weights weights = io::read_weights(request.weights, request.copy);
  Card card = read_card(weights.metadata, source);
  VisionConfig config = choose(request, card, weights);
  const std::string& mixers = request.mixers.empty() ? card.mixers : request.mixers;
  if (!mixers.empty()) config = with_mixers(config, mixers);
  source.check(card.labels.empty() || std::ssize(card.labels) == classes_of(config), "has ",
               card.labels.size(), " labels and ", classes_of(config),
               " classes; write the file again with a label for each class, or without labels");
  LoadedVision loaded{.config = config, .card = std::move(card), .model = make(config)};
  std::visit([&](auto& model) { load_weights(*model, weights, request.weights); }, loaded.model);
  complete(loaded.card, config);
  loaded.is_trained = true;
  return loaded;
}

}  // namespace mala::models
