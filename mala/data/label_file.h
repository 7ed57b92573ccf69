// Names of classes from a file.
#pragma once

#include <string>
#include <vector>

namespace mala::data {

// One name a line, in the order of the classes; or JSON: a list of names, or an object from numbers
// to names as ImageNet's index has it, {"0": ["n01440764", "tench"], ...}, of which the last word
// counts. Throws mala::Error that names the file.
std::vector<std::string> read_labels(const std::string& path);

}  // namespace mala::data
