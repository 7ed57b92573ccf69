// Looks labels up, or makes the classes out of them.
#include "mala/data/dataset/labels.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

namespace mala::data {
namespace {

constexpr int64_t kMostClasses = 1'000'000;  // a larger number is a mistake, not a label

std::optional<int64_t> number_in(const std::string& text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

std::vector<std::string> classes_of(const Source& source, const std::vector<std::string>& texts,
                                    const std::function<std::string(size_t)>& place_of) {
  std::vector<std::string> classes;
  int64_t most = -1;
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::optional<int64_t> number = number_in(texts[i]);
    if (!number) {
      classes = texts;
      std::ranges::sort(classes);
      classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
      return classes;
    }
    source.check(*number >= 0 && *number < kMostClasses, place_of(i), " has label ", *number,
                 "; numbers go from 0 to ", kMostClasses - 1);
    most = std::max(most, *number);
  }
  for (int64_t i = 0; i <= most; ++i) classes.push_back(std::to_string(i));
  return classes;
}

}  // namespace

Labels resolve_labels(const Source& source, const std::vector<std::string>& texts,
                      const std::function<std::string(size_t)>& place_of,
                      const std::vector<std::string>& classes) {
  Labels labels{classes.empty() ? classes_of(source, texts, place_of) : classes, {}};
  std::map<std::string, int64_t, std::less<>> by_name;
  const int64_t count = std::ssize(labels.classes);
  for (int64_t i = 0; i < count; ++i) by_name.emplace(labels.classes[static_cast<size_t>(i)], i);
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto found = by_name.find(texts[i]);
    const int64_t value = found != by_name.end() ? found->second : number_in(texts[i]).value_or(-1);
    source.check(value >= 0 && value < count, place_of(i), " has label ", in_quotes(texts[i]),
                 ", which is none of the ", count, " classes nor a number below ", count);
    labels.values.push_back(value);
  }
  return labels;
}

}  // namespace mala::data
