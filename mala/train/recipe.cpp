// TOML into fields.
#include "mala/train/recipe.h"

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include "mala/core/mapped_file.h"
#include "mala/core/source.h"

namespace mala::train {
namespace {

constexpr const char* kTask = "task";

// A place in the recipe, for messages.
Source at(const Source& source, const toml::node& node) {
  return {source.where, str(source.name, ":", node.source().begin.line)};
}

toml::table parse(const Source& source) {
  const MappedFile file(source);
  try {
    return toml::parse(text_of(file.bytes()), source.name);
  } catch (const toml::parse_error& error) {
    const Source place{source.where, str(source.name, ":", error.source().begin.line)};
    place.fail(str("is no TOML: ", error.description()));
  }
}

bool read(const toml::node& node, bool& value) {
  if (!node.is_boolean()) return false;
  value = *node.value<bool>();
  return true;
}
bool read(const toml::node& node, int64_t& value) {
  if (!node.is_integer()) return false;
  value = *node.value<int64_t>();
  return true;
}
bool read(const toml::node& node, double& value) {
  if (!node.is_number()) return false;  // 1 is a number too
  value = *node.value<double>();
  return true;
}
bool read(const toml::node& node, std::string& value) {
  if (!node.is_string()) return false;
  value = *node.value<std::string>();
  return true;
}
bool read(const toml::node& node, std::vector<std::string>& value) {
  const toml::array* array = node.as_array();
  if (!array) return false;
  std::vector<std::string> words;
  for (const toml::node& item : *array) {
    if (!item.is_string()) return false;
    words.push_back(*item.value<std::string>());
  }
  value = words;
  return true;
}

std::string_view kind_of_node(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::array:
      return "a list";
    default:
      return "something else";
  }
}

void set_from_node(const Field& field, const toml::node& node, const Source& source) {
  const bool ok = std::visit([&](auto* pointer) { return read(node, *pointer); }, field.value);
  at(source, node)
      .check(ok, field.name, " is ", kind_of(field.value), ", not ", kind_of_node(node));
}

void read_table(const toml::table& table, const std::string& section, const Fields& fields,
                const Source& source) {
  for (const auto& [key, node] : table) {
    const std::string name = section.empty() ? std::string(key) : section + "." + std::string(key);
    if (name == kTask) continue;
    if (const toml::table* inner = node.as_table()) {
      read_table(*inner, name, fields, source);
    } else {
      set_from_node(find_field(fields, name, at(source, node)), node, source);
    }
  }
}

}  // namespace

std::string task_of_recipe(const std::string& path) {
  const Source source{"train", path};
  const toml::table table = parse(source);
  const toml::node* task = table.get(kTask);
  if (!task) return "classify";
  at(source, *task).check(task->is_string(), "task is a text, not ", kind_of_node(*task));
  return *task->value<std::string>();
}

void read_recipe(const std::string& path, const Fields& fields) {
  const Source source{"train", path};
  read_table(parse(source), "", fields, source);
}

void apply_overrides(const std::vector<std::string>& overrides, const Fields& fields) {
  const Source source{"train", "key=value"};
  for (const std::string& word : overrides) {
    const size_t equals = word.find('=');
    source.check(equals != word.npos && equals > 0, in_quotes(word),
                 " is no setting; write key=value, such as epochs=10");
    const Field& field = find_field(fields, word.substr(0, equals), source);
    set_from_text(field, word.substr(equals + 1), source);
  }
}

std::string write_recipe(const std::string& task, const Fields& fields) {
  std::string text = str(kTask, " = \"", task, "\"\n"), section;
  for (const Field& field : fields) {
    const size_t dot = field.name.rfind('.');
    const std::string its_section = field.name.substr(0, dot);
    if (its_section != section) text += "\n[" + (section = its_section) + "]\n";
    text += field.name.substr(dot + 1) + " = " + text_of(field.value) + "\n";
  }
  return text;
}

}  // namespace mala::train
