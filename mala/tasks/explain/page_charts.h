// The parts of the page that are charts and tables.
#pragma once

#include <string>
#include <vector>

#include "mala/tasks/explain/explain.h"

namespace mala::tasks {

// The rule's name in its colour; `rule` counts in kExplained.
std::string rule_key(size_t rule);

// What becomes of the ratio of two weights when the query grows.
std::string ratio_section(const std::vector<StageExplanation>& stages);
// How evenly each rule looks, and how large queries are, stage by stage.
std::string sharpness_section(const std::vector<StageExplanation>& stages);
// How far each map is from softmax's.
std::string closeness_section(const std::vector<StageExplanation>& stages);

}  // namespace mala::tasks
