// One page that shows an explanation, and needs nothing but itself.
#pragma once

#include <string>
#include <vector>

#include "mala/data/image/image.h"
#include "mala/tasks/explain/explain.h"

namespace mala::tasks {

// What the page says and shows of the picture and the model.
struct PageFacts {
  std::string file = {}, model = {};
  std::string weights = {};  // a file; empty: as before training, which the page says at its top
  data::Image picture = {};  // what the model sees, in a size that is good to look at
  Point point = {};
  int64_t sample = 64;  // how many queries of a stage were measured, at most
};

// HTML with style, charts and pictures inside; nothing is loaded from anywhere.
std::string draw_page(const PageFacts& facts, const std::vector<StageExplanation>& stages);

}  // namespace mala::tasks
