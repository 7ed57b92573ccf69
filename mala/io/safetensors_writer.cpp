// Writes safetensors: widest types first, so that every array is aligned for its type.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "mala/core/output_file.h"
#include "mala/io/safetensors.h"

namespace mala::io {
namespace {

constexpr size_t kAlignment = 8;

std::vector<const Array*> in_file_order(std::span<const Array> arrays) {
  std::vector<const Array*> order;
  for (const Array& array : arrays) order.push_back(&array);
  std::sort(order.begin(), order.end(), [](const Array* a, const Array* b) {
    const size_t left = bytes_of(a->type), right = bytes_of(b->type);
    return left != right ? left > right : a->name < b->name;
  });
  return order;
}

void check_array(const Array& array, const Source& source) {
  check_name(array.name, source);
  source.check(array.shape.size() <= kMostDims, in_quotes(array.name), " has ", array.shape.size(),
               " dimensions, at most ", kMostDims, " are read; reshape it");
  const auto bytes = bytes_of(array.shape, array.type);
  source.check(bytes == array.bytes.size(), in_quotes(array.name), " is ", shape_text(array.shape),
               " of ", names_of(array.type).safetensors, " but has ", array.bytes.size(),
               " bytes; give it as many as its shape takes");
  source.check(array.name != "__metadata__", "'__metadata__' cannot be the name of an array");
}

// JSON has only whole UTF-8: a name with other bytes would be written as another name.
std::string json_text(const nlohmann::json& value, const Source& source) {
  try {
    return value.dump();
  } catch (const nlohmann::json::type_error&) {
    source.fail("a name or the metadata is not UTF-8; rename it");
  }
}

// The text grows array by array: a JSON object that keeps its order looks through all its keys
// whenever one is added.
std::string header_of(const std::vector<const Array*>& order,
                      const std::map<std::string, std::string>& metadata, const Source& source) {
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + json_text(metadata, source);
  std::unordered_set<std::string_view> names;
  uint64_t begin = 0;
  for (const Array* array : order) {
    check_array(*array, source);
    source.check(names.insert(array->name).second, "two arrays have the name ",
                 in_quotes(array->name), "; rename one");
    const uint64_t end = begin + array->bytes.size();
    const nlohmann::ordered_json facts{{"dtype", names_of(array->type).safetensors},
                                       {"shape", array->shape},
                                       {"data_offsets", {begin, end}}};
    if (text.size() > 1) text += ',';
    text += json_text(array->name, source) + ":" + facts.dump();
    begin = end;
  }
  text += '}';
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  return text;
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const Array> arrays,
                       const std::map<std::string, std::string>& metadata) {
  const Source source{"write_safetensors", path};
  const std::vector<const Array*> order = in_file_order(arrays);
  const std::string header = header_of(order, metadata, source);
  std::string length(8, '\0');
  for (size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>(header.size() >> (8 * i));
  }
  OutputFile file(source);
  file.write(bytes_of_text(length));
  file.write(bytes_of_text(header));
  for (const Array* array : order) file.write(array->bytes);
  file.commit();
}

}  // namespace mala::io
