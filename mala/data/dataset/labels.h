// Labels as people write them, names or numbers, to numbers from 0 on.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "mala/core/source.h"

namespace mala::data {

struct Labels {
  std::vector<std::string> classes;
  std::vector<int64_t> values;  // one for each text
};

// Each text is the name or the number of one of `classes`. Where there are none yet, the texts make
// them: numbers, when all are numbers, or else names in their order. `place_of(i)` says where text
// i stands, for messages. Throws mala::Error when a text names no class.
Labels resolve_labels(const Source& source, const std::vector<std::string>& texts,
                      const std::function<std::string(size_t)>& place_of,
                      const std::vector<std::string>& classes);

}  // namespace mala::data
