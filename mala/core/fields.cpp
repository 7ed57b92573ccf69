// Fields by name, from text and to text.
#include "mala/core/fields.h"

#include <charconv>
#include <cmath>

#include "mala/core/nearest.h"

namespace mala {
namespace {

template <typename Number>
bool read_number(std::string_view text, Number& value) {
  Number read{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), read);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(read)) return false;
  }
  value = read;
  return true;
}

bool read(std::string_view text, bool& value) {
  if (text != "true" && text != "false") return false;
  value = text == "true";
  return true;
}
bool read(std::string_view text, int64_t& value) { return read_number(text, value); }
bool read(std::string_view text, double& value) { return read_number(text, value); }
bool read(std::string_view text, std::string& value) {
  value = text;
  return true;
}
bool read(std::string_view text, std::vector<std::string>& value) {
  value.clear();
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    value.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return true;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

std::string write(bool value) { return value ? "true" : "false"; }
std::string write(int64_t value) { return std::to_string(value); }
std::string write(double value) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);  // the shortest
  std::string result(text, end);
  return result.find_first_of(".en") == result.npos ? result + ".0" : result;
}
std::string write(const std::string& value) { return quoted(value); }
std::string write(const std::vector<std::string>& value) {
  std::string result;
  for (const std::string& item : value) result += (result.empty() ? "" : ", ") + quoted(item);
  return "[" + result + "]";
}

std::string_view without_section(std::string_view name) { return name.substr(name.rfind('.') + 1); }

const Field* find_without_section(std::span<const Field> fields, std::string_view name,
                                  const Source& source) {
  const Field* found = nullptr;
  std::string all;
  for (const Field& field : fields) {
    if (without_section(field.name) != name) continue;
    all += (all.empty() ? "" : " and ") + field.name;
    source.check(found == nullptr, in_quotes(name), " may be ", all, "; write one of them in full");
    found = &field;
  }
  return found;
}

}  // namespace

std::string_view kind_of(const FieldValue& value) {
  constexpr std::string_view kKinds[] = {"true or false", "a whole number", "a number", "a text",
                                         "a list of texts"};
  return kKinds[value.index()];
}

std::string text_of(const FieldValue& value) {
  return std::visit([](const auto* pointer) { return write(*pointer); }, value);
}

const Field& find_field(std::span<const Field> fields, std::string_view name,
                        const Source& source) {
  for (const Field& field : fields) {
    if (field.name == name) return field;
  }
  if (const Field* found = find_without_section(fields, name, source)) return *found;
  const bool has_section = name.find('.') != name.npos;
  std::vector<std::string> known;
  for (const Field& field : fields) {
    known.emplace_back(has_section ? field.name : without_section(field.name));
  }
  source.fail(str("there is no setting ", in_quotes(name), did_you_mean(name, known),
                  "; --settings lists them all"));
}

void set_from_text(const Field& field, std::string_view text, const Source& source) {
  const bool ok = std::visit([&](auto* pointer) { return read(text, *pointer); }, field.value);
  source.check(ok, field.name, " is ", kind_of(field.value), ", not ", in_quotes(text));
}

}  // namespace mala
