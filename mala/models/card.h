// What a file of weights says of its model: all that is needed to use it on pictures. It lies in
// the metadata of safetensors files, where docs/files.md lists the keys.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mala/core/source.h"

namespace mala::models {

using Metadata = std::map<std::string, std::string>;

struct Card {
  std::string model = {};   // a name that vision_config knows; empty: told by the shapes
  std::string mixers = {};  // as with_mixers takes them; empty: those of the model
  int64_t image_size = 0;   // pixels on a side that the model sees; 0: those of the model
  double crop = 0.875;      // of the short side of a picture, what the model sees
  std::array<double, 3> mean{0.485, 0.456, 0.406};  // of ImageNet
  std::array<double, 3> deviation{0.229, 0.224, 0.225};
  std::vector<std::string> labels = {};  // one for each class, or none

  bool operator==(const Card&) const = default;
};

// What to write beside the weights: only fields that say something.
Metadata metadata_of(const Card& card);

// What the metadata says, and the default where it is silent. Keys of others are left alone. Throws
// mala::Error that names the file when a value is not what its key needs.
Card read_card(const Metadata& metadata, const Source& source);

}  // namespace mala::models
