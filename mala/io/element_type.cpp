// One table of number types.
#include "mala/io/element_type.h"

#include <array>

namespace mala::io {
namespace {

using enum ElementType;

// In the order of the enumeration.
constexpr std::array<ElementTypeNames, 15> kTypes{{
    {kFloat64, 8, "F64", "float64", "DoubleStorage"},
    {kFloat32, 4, "F32", "float32", "FloatStorage"},
    {kFloat16, 2, "F16", "float16", "HalfStorage"},
    {kBFloat16, 2, "BF16", "bfloat16", "BFloat16Storage"},
    {kFloat8E4M3, 1, "F8_E4M3", "float8_e4m3fn", ""},
    {kFloat8E5M2, 1, "F8_E5M2", "float8_e5m2", ""},
    {kInt64, 8, "I64", "int64", "LongStorage"},
    {kInt32, 4, "I32", "int32", "IntStorage"},
    {kInt16, 2, "I16", "int16", "ShortStorage"},
    {kInt8, 1, "I8", "int8", "CharStorage"},
    {kUInt64, 8, "U64", "uint64", ""},
    {kUInt32, 4, "U32", "uint32", ""},
    {kUInt16, 2, "U16", "uint16", ""},
    {kUInt8, 1, "U8", "uint8", "ByteStorage"},
    {kBool, 1, "BOOL", "bool", "BoolStorage"},
}};

std::optional<ElementType> find(std::string_view ElementTypeNames::*field, std::string_view name) {
  for (const ElementTypeNames& names : kTypes) {
    if (!name.empty() && names.*field == name) return names.type;
  }
  return std::nullopt;
}

}  // namespace

const ElementTypeNames& names_of(ElementType type) { return kTypes[static_cast<size_t>(type)]; }

std::optional<ElementType> type_of_safetensors(std::string_view name) {
  return find(&ElementTypeNames::safetensors, name);
}

std::optional<ElementType> type_of_torch(std::string_view name) {
  return find(&ElementTypeNames::torch, name);
}

std::optional<ElementType> type_of_torch_storage(std::string_view name) {
  return find(&ElementTypeNames::torch_storage, name);
}

}  // namespace mala::io
