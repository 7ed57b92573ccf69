// Reads safetensors, believing nothing that the header says before the file confirms it.
#include "mala/io/safetensors.h"

#include <algorithm>

#include "mala/core/mapped_file.h"
#include "mala/io/safetensors_header.h"

namespace mala::io {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMostHeaderBytes = 100'000'000;  // the limit of the format's own reader

// The text between the length and the data.
std::string_view header_text(Bytes file, const Source& source) {
  source.check(!file.empty(), "is empty");
  source.check(file.size() >= kLengthBytes, "has ", file.size(),
               " bytes, too few for a safetensors file");
  const uint64_t length = load_le<uint64_t>(file, 0);
  source.check(length <= kMostHeaderBytes, "claims a header of ", length, " bytes, at most ",
               kMostHeaderBytes, " are read; it is damaged or no safetensors file");
  source.check(fits(kLengthBytes, length, file.size()), "claims a header of ", length,
               " bytes but has ", file.size(), " in all; it is cut short");
  const std::string_view text = text_of(file.subspan(kLengthBytes, length));
  source.check(text.starts_with('{'), "has a header that does not begin with {");
  return text;
}

// What the header says of one array, against the data there is.
Array checked(const HeaderEntry& entry, Bytes data, const Source& source) {
  const std::string name = in_quotes(entry.name);
  const auto type = type_of_safetensors(entry.type);
  source.check(type.has_value(), name, " has the type ", in_quotes(entry.type),
               ", which is not read; convert it to F32 or BF16");
  const auto bytes = bytes_of(entry.shape, *type);
  source.check(bytes.has_value(), name, " has the shape ", shape_text(entry.shape),
               ", too large for any memory");
  const auto [begin, end] = entry.offsets;
  source.check(begin <= end && end <= data.size(), name, " lies at bytes ", begin, " to ", end,
               " but there are ", data.size(), "; the file is cut short or damaged");
  source.check(end - begin == *bytes, name, " is ", shape_text(entry.shape), " of ", entry.type,
               ", which takes ", *bytes, " bytes, but has ", end - begin);
  return {entry.name, *type, entry.shape, data.subspan(begin, end - begin)};
}

// The format wants every byte to belong to one array: nothing hides between them or is read twice.
void check_layout(std::vector<HeaderEntry> entries, uint64_t size, const Source& source) {
  const auto by_offset = [](const auto& a, const auto& b) { return a.offsets < b.offsets; };
  std::sort(entries.begin(), entries.end(), by_offset);
  uint64_t end = 0;
  for (const HeaderEntry& entry : entries) {
    source.check(entry.offsets[0] >= end, in_quotes(entry.name),
                 " overlaps the array before it; the file is damaged");
    source.check(entry.offsets[0] == end, "has a gap before ", in_quotes(entry.name),
                 ", which the format forbids");
    end = entry.offsets[1];
  }
  source.check(end == size, "has ", size - end, " bytes behind its last array; it is damaged");
}

}  // namespace

Weights parse_safetensors(Bytes bytes, const Source& source) {
  const std::string_view text = header_text(bytes, source);
  SafetensorsHeader header = parse_safetensors_header(text, source);
  const Bytes data = bytes.subspan(kLengthBytes + text.size());
  Weights weights;
  weights.metadata = std::move(header.metadata);
  for (const HeaderEntry& entry : header.entries) {
    weights.arrays.push_back(checked(entry, data, source));
  }
  check_layout(std::move(header.entries), data.size(), source);
  sort_by_name(weights, source);
  return weights;
}

Weights parse_safetensors(Bytes bytes, const std::string& name) {
  return parse_safetensors(bytes, Source{"read_safetensors", name});
}

Weights read_safetensors(const std::string& path) {
  const auto file = std::make_shared<MappedFile>(Source{"read_safetensors", path});
  Weights weights = parse_safetensors(file->bytes(), path);
  weights.owners.push_back(file);
  return weights;
}

}  // namespace mala::io
