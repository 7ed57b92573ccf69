// Finds the widths of columns and pads their cells.
#include "mala/core/text_table.h"

#include <algorithm>

namespace mala {

namespace {

using Cells = std::vector<std::string>;

// Letters, not bytes: of a letter in UTF-8 all bytes but the first begin with the bits 10.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u;
  }));
}

void widen(std::vector<size_t>& widths, const Cells& cells) {
  widths.resize(std::max(widths.size(), cells.size()));
  for (size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width_of(cells[i]));
}

std::string padding(const std::string& cell, size_t width) {
  return std::string(width - width_of(cell), ' ');
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

}  // namespace mala
