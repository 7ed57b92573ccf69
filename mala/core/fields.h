// The fields of a configuration by name, so that files, command lines and printouts walk one list.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "mala/core/source.h"

namespace mala {

using FieldValue = std::variant<bool*, int64_t*, double*, std::string*, std::vector<std::string>*>;

// One setting. The name has its section before a dot: "train.epochs".
struct Field {
  std::string name;
  FieldValue value;
  std::string_view help;
};

using Fields = std::vector<Field>;

// "a whole number", for messages.
std::string_view kind_of(const FieldValue& value);

// As a recipe writes it: 0.05, "mavit_n", ["a", "b"]. Reads back to the same value.
std::string text_of(const FieldValue& value);

// The field of this name, or of this name without its section where only one has it. Throws
// mala::Error that names the source and the nearest field when there is none.
const Field& find_field(std::span<const Field> fields, std::string_view name, const Source& source);

// Puts what stands behind "key=" on a command line into the field: a list takes words with commas
// between them. Throws mala::Error when the text is no such value.
void set_from_text(const Field& field, std::string_view text, const Source& source);

}  // namespace mala
