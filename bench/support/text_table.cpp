// Finds the widths of columns and pads their cells.
#include "bench/support/text_table.h"

#include <algorithm>

namespace mala::bench {

namespace {

using Cells = std::vector<std::string>;

void widen(std::vector<size_t>& widths, const Cells& cells) {
  widths.resize(std::max(widths.size(), cells.size()));
  for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], cells[i].size());
}

std::string padding(const std::string& cell, size_t width) {
  return std::string(width - cell.size(), ' ');
}

std::string without_end_spaces(const std::string& text) {
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

}  // namespace

std::string align(const std::vector<Line>& lines) {
  std::vector<size_t> label_widths, figure_widths;
  for (const Line& line : lines) {
    widen(label_widths, line.labels);
    widen(figure_widths, line.figures);
  }
  std::string text;
  for (const Line& line : lines) {
    std::string written;
    for (size_t i = 0; i < line.labels.size(); ++i) {
      written += line.labels[i] + padding(line.labels[i], label_widths[i] + 2);
    }
    for (size_t i = 0; i < line.figures.size(); ++i) {
      written += padding(line.figures[i], figure_widths[i] + 2) + line.figures[i];
    }
    text += without_end_spaces(written + line.note) + "\n";
  }
  return text;
}

}  // namespace mala::bench
