// Tells the kinds of weight files apart.
#include "mala/io/read_weights.h"

#include "mala/core/mapped_file.h"

namespace mala::io {
namespace {

// Behind its length a safetensors file has JSON; anything else is judged by the reader of
// checkpoints, whose messages know what people mistake for one.
bool looks_like_safetensors(Bytes bytes) { return bytes.size() > 8 && bytes[8] == std::byte{'{'}; }

}  // namespace

Weights parse_weights(Bytes bytes, const std::string& name, Copy copy) {
  const Source source{"read_weights", name};
  if (!looks_like_safetensors(bytes)) return parse_pth(bytes, source, copy);
  Weights weights = parse_safetensors(bytes, source);
  strip_module_prefix(weights);
  source.check(copy == Copy::kTrained,
               "a safetensors file has one copy of the weights; ask for the trained ones");
  return weights;
}

Weights read_weights(const std::string& path, Copy copy) {
  const auto file = std::make_shared<MappedFile>(Source{"read_weights", path});
  Weights weights = parse_weights(file->bytes(), path, copy);
  weights.owners.push_back(file);
  return weights;
}

}  // namespace mala::io
