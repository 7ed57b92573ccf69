// The number types of weight files, and what the formats call them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mala::io {

enum class ElementType : uint8_t {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kFloat8E4M3,
  kFloat8E5M2,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUInt64,
  kUInt32,
  kUInt16,
  kUInt8,
  kBool,
};

struct ElementTypeNames {
  ElementType type;
  size_t bytes;
  std::string_view safetensors;    // "F32"
  std::string_view torch;          // "float32", as in torch.float32
  std::string_view torch_storage;  // "FloatStorage"; empty where torch has no such class
};

const ElementTypeNames& names_of(ElementType type);
inline size_t bytes_of(ElementType type) { return names_of(type).bytes; }

// Empty where we do not know the name.
std::optional<ElementType> type_of_safetensors(std::string_view name);
std::optional<ElementType> type_of_torch(std::string_view name);
std::optional<ElementType> type_of_torch_storage(std::string_view name);

}  // namespace mala::io
