// How deep parameters lie in a model, told by their names.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mala::tasks {

struct LayerDepths {
  std::map<std::string, int64_t> of;  // by parameter
  int64_t count = 1;
};

// `names` in the order of the model. 0 for all before the first block ("blocks.0.",
// "layers.1.blocks.2."), one more for each block, and the last for what follows them; what stands
// between blocks counts with the block before it.
LayerDepths layer_depths(const std::vector<std::string>& names);

}  // namespace mala::tasks
