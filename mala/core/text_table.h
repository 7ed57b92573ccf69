// Aligns text in columns.
#pragma once

#include <string>
#include <vector>

namespace mala {

// Labels stand left and figures right. A line may have a note in place of figures; an empty line
// has neither.
struct Line {
  std::vector<std::string> labels, figures;
  std::string note = {};
};

// A line of text each, as wide as the longest of their cells need.
std::string align(const std::vector<Line>& lines);

}  // namespace mala
