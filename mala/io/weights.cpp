// Order, names and sizes of the arrays of a model.
#include "mala/io/weights.h"

#include <algorithm>
#include <limits>

namespace mala::io {
namespace {

// What models put before all names that were wrapped for several GPUs, or compiled.
size_t wrapper_of(std::string_view name) {
  for (const std::string_view prefix : {"module.", "_orig_mod."}) {
    if (name.starts_with(prefix)) return prefix.size();
  }
  return 0;
}

}  // namespace

const Array* Weights::find(std::string_view name) const {
  const auto before = [](const Array& array, std::string_view wanted) {
    return array.name < wanted;
  };
  const auto found = std::lower_bound(arrays.begin(), arrays.end(), name, before);
  return found != arrays.end() && found->name == name ? &*found : nullptr;
}

std::optional<uint64_t> bytes_of(const Shape& shape, ElementType type) {
  constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
  uint64_t bytes = bytes_of(type);
  // A size of zero empties the array, but does not excuse an overflow before it.
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size > 0 && bytes > kMost / static_cast<uint64_t>(size)) return std::nullopt;
    bytes *= static_cast<uint64_t>(std::max<int64_t>(size, 1));
  }
  return std::find(shape.begin(), shape.end(), 0) == shape.end() ? bytes : 0;
}

std::string shape_text(const Shape& shape) {
  std::string text = "(";
  for (const int64_t size : shape) text += str(text.size() > 1 ? ", " : "", size);
  return text + ")";
}

void sort_by_name(Weights& weights, const Source& source) {
  const auto by_name = [](const Array& a, const Array& b) { return a.name < b.name; };
  const auto same = [](const Array& a, const Array& b) { return a.name == b.name; };
  std::sort(weights.arrays.begin(), weights.arrays.end(), by_name);
  const auto twice = std::adjacent_find(weights.arrays.begin(), weights.arrays.end(), same);
  source.check(twice == weights.arrays.end(), "has two arrays of one name",
               twice == weights.arrays.end() ? "" : ", " + in_quotes(twice->name));
}

void check_name(std::string_view name, const Source& source) {
  source.check(name.size() <= kMostNameBytes, "has the name ", in_quotes(name), " of ", name.size(),
               " bytes, at most ", kMostNameBytes, " are read; save it under a shorter one");
}

void strip_module_prefix(Weights& weights) {
  if (weights.arrays.empty()) return;
  const std::string first = weights.arrays.front().name;
  size_t common = first.size();
  for (const Array& array : weights.arrays) {
    const auto ends =
        std::mismatch(first.begin(), first.end(), array.name.begin(), array.name.end());
    common = std::min(common, static_cast<size_t>(ends.first - first.begin()));
  }
  std::string_view rest = std::string_view(first).substr(0, common);
  while (const size_t size = wrapper_of(rest)) rest.remove_prefix(size);
  const size_t shared = common - rest.size();
  for (Array& array : weights.arrays) array.name.erase(0, shared);
}

}  // namespace mala::io
