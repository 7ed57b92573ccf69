// Recipes: settings from a TOML file and from `key=value` on the command line.
#pragma once

#include <string>
#include <vector>

#include "mala/core/fields.h"

namespace mala::train {

// The value of the top-level key `task`; "classify" where the file has none.
std::string task_of_recipe(const std::string& path);

// Puts what the file says into the fields. Throws mala::Error with the line of the file for a key
// that no field has (and the nearest that one has), a value of another kind, or broken TOML.
void read_recipe(const std::string& path, const Fields& fields);

// `key=value` each, after the file. The section may be left out where the key is the only one.
void apply_overrides(const std::vector<std::string>& overrides, const Fields& fields);

// All settings as a recipe that read_recipe takes.
std::string write_recipe(const std::string& task, const Fields& fields);

}  // namespace mala::train
