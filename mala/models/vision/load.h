// A model for pictures from a file of weights, or from its name alone.
#pragma once

#include <variant>

#include "mala/io/pth.h"
#include "mala/models/card.h"
#include "mala/models/vision/catalogue.h"
#include "mala/models/vision/mavit.h"

namespace mala::models {

// What somebody asks for; empty where the file is to say it.
struct VisionRequest {
  std::string weights = {};  // a file; empty: a model as it is before training
  std::string model = {};    // a name that vision_config knows
  std::string mixers = {};   // as with_mixers takes them
  io::Copy copy = io::Copy::kTrained;
};

struct LoadedVision {
  VisionConfig config;
  Card card = {};  // complete: names, mixers and image size are filled in
  std::variant<Mavit, Deit> model;
  bool is_trained = false;
};

// The configuration comes from the request, else from the file's metadata, else from the shapes of
// its arrays. Throws mala::Error that names the file when it fits no model, or when its labels are
// not as many as its classes.
LoadedVision load_vision(const VisionRequest& request);

}  // namespace mala::models
