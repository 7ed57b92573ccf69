// Small charts as SVG text. Colours come from the page: a line of class "mala" is drawn in MALA's.
#pragma once

#include <string>
#include <vector>

namespace mala::tasks {

struct Series {
  std::string name = {}, css_class = {};
  std::vector<double> values = {};          // one for each x; what is not finite is left out
  std::vector<double> low = {}, high = {};  // the ends of a bar through each value, or nothing
  bool has_dots = false, has_line = true;
};

struct Chart {
  std::string title = {}, x_title = {};
  std::vector<double> x = {};  // rising
  std::vector<std::string> x_labels =
      {};  // one for each x, or none: numbers at both ends and between
  std::vector<Series> series = {};
  double low = 0, high = 1;  // of y; what lies beyond is cut off
  bool is_log = false;       // of y, which is above 0 then
};

std::string draw_chart(const Chart& chart);

// Text fit for a page: & < > " ' written out.
std::string escaped(const std::string& text);

// Three digits, and few letters: 0.812, 12.3, 4.1e9
std::string short_number(double value);

}  // namespace mala::tasks
