// A text file with a path and a label on each line.
#include <filesystem>

#include "mala/core/mapped_file.h"
#include "mala/data/dataset/image_files.h"
#include "mala/data/dataset/kinds.h"
#include "mala/data/dataset/labels.h"

namespace mala::data {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// Paths and labels may have spaces where a tab or a comma parts them.
size_t find_separator(std::string_view line) {
  for (const char separator : {'\t', ',', ' '}) {
    const size_t found = line.rfind(separator);
    if (found != std::string_view::npos) return found;
  }
  return std::string_view::npos;
}

struct Lines {
  std::vector<std::string> paths, labels;
  std::vector<int64_t> numbers;  // of the lines, from 1 on
};

Lines read_lines(std::string_view text, const Source& source) {
  source.check(text.find('\0') == std::string_view::npos, "is no text: it has zero bytes");
  Lines lines;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line.starts_with('#')) continue;
    const size_t separator = find_separator(line);
    source.check(separator != std::string_view::npos, "line ", number, ": ", in_quotes(line),
                 " needs a path and a label, with a tab, a comma or a space between them");
    lines.paths.emplace_back(trimmed(line.substr(0, separator)));
    lines.labels.emplace_back(trimmed(line.substr(separator + 1)));
    lines.numbers.push_back(number);
  }
  return lines;
}

}  // namespace

std::unique_ptr<ImageSource> open_list(const std::string& path, const SourceOptions& options) {
  const Source source{"open_images", path};
  const MappedFile file(source);
  const Lines lines = read_lines(text_of(file.bytes()), source);
  source.check(!lines.paths.empty(), "lists no pictures; each line needs a path and a label");
  const auto place_of = [&](size_t i) { return str("line ", lines.numbers[i]); };
  Labels labels = resolve_labels(source, lines.labels, place_of, options.classes);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::vector<LabelledFile> files;
  for (size_t i = 0; i < lines.paths.size(); ++i) {
    files.push_back({(folder / lines.paths[i]).string(), labels.values[i]});
  }
  return std::make_unique<ImageFiles>(std::move(files), std::move(labels.classes));
}

}  // namespace mala::data
