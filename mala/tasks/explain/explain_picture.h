// From the file of a picture to a folder with the page that explains it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mala/models/vision/load.h"
#include "mala/tasks/placement.h"

namespace mala::tasks {

// Counted from the left and the top of the picture, upright and in full.
struct Pixel {
  double x = 0, y = 0;
};

struct ExplainRequest {
  std::string picture;
  models::VisionRequest model;  // neither weights nor a name: mavit_t before training
  std::optional<Pixel> at;      // where absent: the middle
  std::string folder;           // made where it is missing
  Placement placement;          // of the model; maps are made on the CPU
};

struct Explained {
  std::string page;                   // the path of index.html
  std::vector<std::string> pictures;  // the paths of its PNGs
  std::string model;
  bool is_trained = false;
};

// The model sees the middle of the picture, cut as it was trained. Throws mala::Error for what
// cannot be read or written, for models other than MAViT, and for a pixel that the model does not
// see. Files appear whole or not at all, and the page last.
Explained explain_picture(const ExplainRequest& request);

}  // namespace mala::tasks
