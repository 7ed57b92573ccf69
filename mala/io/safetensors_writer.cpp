// Writes safetensors: widest types first, so that every array is aligned for its type.
#include <algorithm>
#include <nlohmann/json.hpp>

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
  const auto bytes = bytes_of(array.shape, array.type);
  source.check(bytes == array.bytes.size(), in_quotes(array.name), " is ", shape_text(array.shape),
               " of ", names_of(array.type).safetensors, " but has ", array.bytes.size(),
               " bytes; give it as many as its shape takes");
  source.check(array.name != "__metadata__", "'__metadata__' cannot be the name of an array");
}

std::string header_of(const std::vector<const Array*>& order,
                      const std::map<std::string, std::string>& metadata, const Source& source) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t begin = 0;
  for (const Array* array : order) {
    check_array(*array, source);
    header[array->name] = {{"dtype", names_of(array->type).safetensors},
                           {"shape", array->shape},
                           {"data_offsets", {begin, begin + array->bytes.size()}}};
    begin += array->bytes.size();
  }
  source.check(header.size() == order.size() + (metadata.empty() ? 0 : 1),
               "two arrays have one name; rename one");
  // JSON has only whole UTF-8: a name with other bytes would be written as another name.
  using nlohmann::ordered_json;
  std::string text = header.dump(-1, ' ', false, ordered_json::error_handler_t::ignore);
  source.check(text == header.dump(-1, ' ', false, ordered_json::error_handler_t::replace),
               "a name or the metadata is not UTF-8; rename it");
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
