// Names and shapes, wanted and found.
#include "mala/io/compare.h"

#include <unordered_set>

namespace mala::io {
namespace {

constexpr size_t kNamed = 3;  // of each kind; more would hide the kinds behind them

// "2 arrays are missing: 'a', 'b'"
void append(std::string& line, const std::vector<std::string>& names, const char* what) {
  if (names.empty()) return;
  if (!line.empty()) line += "; ";
  line += str(names.size(), names.size() == 1 ? " array is " : " arrays are ", what, ": ");
  for (size_t i = 0; i < std::min(names.size(), kNamed); ++i) {
    line += str(i > 0 ? ", " : "", names[i]);
  }
  if (names.size() > kNamed) line += str(" and ", names.size() - kNamed, " more");
}

}  // namespace

Difference compare(const Weights& weights, std::span<const WantedArray> wanted) {
  Difference difference;
  std::unordered_set<std::string_view> names;
  for (const WantedArray& want : wanted) {
    names.insert(want.name);
    const Array* const array = weights.find(want.name);
    if (array == nullptr) {
      difference.missing.push_back(in_quotes(want.name));
    } else if (array->shape != want.shape) {
      difference.reshaped.push_back(str(in_quotes(want.name), " is ", shape_text(array->shape),
                                        ", wanted ", shape_text(want.shape)));
    }
  }
  for (const Array& array : weights.arrays) {
    if (!names.contains(array.name)) difference.unexpected.push_back(in_quotes(array.name));
  }
  return difference;
}

std::string describe(const Difference& difference) {
  std::string line;
  append(line, difference.missing, "missing");
  append(line, difference.unexpected, "unexpected");
  append(line, difference.reshaped, "of another shape");
  return line;
}

}  // namespace mala::io
