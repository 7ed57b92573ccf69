// Labels as text or JSON, told by the first letter.
#include "mala/data/label_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "mala/core/bytes.h"
#include "mala/core/mapped_file.h"

namespace mala::data {
namespace {

using nlohmann::json;

constexpr size_t kMostBytes = 64'000'000;

std::string trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

std::vector<std::string> from_lines(std::string_view text) {
  std::vector<std::string> labels;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    labels.push_back(trimmed(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  while (!labels.empty() && labels.back().empty()) labels.pop_back();
  return labels;
}

std::string name_of(const json& value, const Source& source) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_array() && !value.empty() && value.back().is_string()) {
    return value.back().get<std::string>();
  }
  source.fail("a label is " + in_quotes(value.dump(-1, ' ', true)) + "; it needs to be a text");
}

std::vector<std::string> from_json(std::string_view text, const Source& source) {
  const json value = json::parse(text, nullptr, false);
  source.check(!value.is_discarded() && (value.is_array() || value.is_object()),
               "begins like JSON and is neither a list nor an object; one name a line will do");
  std::vector<std::string> labels;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string key = std::to_string(i);
    source.check(value.is_array() || value.contains(key), "has ", value.size(),
                 " labels but none for class ", key, "; number them from 0 on");
    labels.push_back(name_of(value.is_array() ? value[i] : value[key], source));
  }
  return labels;
}

}  // namespace

std::vector<std::string> read_labels(const std::string& path) {
  const Source source{"read_labels", path};
  const MappedFile file(source);
  source.check(file.bytes().size() <= kMostBytes, "has ", file.bytes().size(),
               " bytes, which is no list of labels");
  const std::string_view text = text_of(file.bytes());
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json =
      first != std::string_view::npos && (text[first] == '[' || text[first] == '{');
  std::vector<std::string> labels = is_json ? from_json(text, source) : from_lines(text);
  source.check(!labels.empty(), "has no labels; write one on each line");
  return labels;
}

}  // namespace mala::data
