// The weights of a model as plain named arrays.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mala/core/bytes.h"
#include "mala/core/source.h"
#include "mala/io/element_type.h"

namespace mala::io {

using Shape = std::vector<int64_t>;

// Row-major, lowest byte first. The bytes need not be aligned for their type: copy them, or look.
struct Array {
  std::string name;
  ElementType type = ElementType::kFloat32;
  Shape shape;
  Bytes bytes;
};

struct Weights {
  std::vector<Array> arrays;                        // sorted by name, no name twice
  std::map<std::string, std::string> metadata;      // what a safetensors file says of itself
  std::vector<std::string> skipped;                 // entries beside the arrays that are no arrays
  std::vector<std::shared_ptr<const void>> owners;  // keep alive what the arrays show

  const Array* find(std::string_view name) const;  // nullptr when there is none
};

// Bytes of an array of this shape; empty when a size is negative or the product is beyond 2^63.
std::optional<uint64_t> bytes_of(const Shape& shape, ElementType type);

// "(64, 3, 3, 3)"
std::string shape_text(const Shape& shape);

// What no model needs more of; a hostile file could otherwise make every copy of a name long.
inline constexpr size_t kMostDims = 64;  // as many as torch has
inline constexpr size_t kMostNameBytes = 4096;

// Throws when a name is longer.
void check_name(std::string_view name, const Source& source);

// Puts the arrays into order. Throws when two have one name.
void sort_by_name(Weights& weights, const Source& source);

// Takes "module." off the names, which a wrapper for several devices puts before all of them, as
// many times as all of them have it.
void strip_module_prefix(Weights& weights);

}  // namespace mala::io
