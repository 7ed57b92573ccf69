// What the C functions share: messages, options and lists.
#include "mala/kernels/c_interface.h"

#include <array>
#include <cstdio>

namespace mala::c {
namespace {

// Plain characters, because reporting that memory ran out must not allocate.
thread_local char last_error[1024] = "";

// What the names of C++ entries begin with in messages.
constexpr std::array<std::string_view, 5> kEntries = {"[]", "[attention_", "[causal_", "[keys_",
                                                      "[queries_"};

// The C++ enumerations count as the C ones do.
template <typename Enum>
Enum choice(int64_t value, Enum last, const char* name) {
  need(value >= 0 && value <= static_cast<int64_t>(last), name, " is ", value, ", 0 to ",
       static_cast<int64_t>(last), " is needed; use the constants of attention_c.h");
  return static_cast<Enum>(value);
}

// In C the default comes first, so that zero means it.
std::optional<Norm> norm(int64_t value) {
  need(value >= MALA_NORM_DEFAULT && value <= MALA_NORM_BALANCED, "options.norm is ", value, ", ",
       +MALA_NORM_DEFAULT, " to ", +MALA_NORM_BALANCED,
       " is needed; use the constants of attention_c.h");
  if (value == MALA_NORM_DEFAULT) return {};
  return static_cast<Norm>(value - MALA_NORM_PUBLISHED);
}

Rope rope(const mala_rope& given, const char* name) {
  return {.kind = choice(given.kind, Rope::Kind::kTable, name),
          .offset = given.offset,
          .width = given.width,
          .cos = given.cos,
          .sin = given.sin,
          .table_rows = given.table_rows,
          .table_stride = given.table_stride};
}

}  // namespace

// Where the C++ entries name themselves, the caller reads the function it called instead; other
// names in brackets, such as a variable of the environment, stay.
mala_status fail(mala_status status, const char* where, std::string_view message) {
  const bool names_entry = std::any_of(kEntries.begin(), kEntries.end(),
                                       [&](std::string_view x) { return message.starts_with(x); });
  if (names_entry) message.remove_prefix(std::min(message.find(']') + 2, message.size()));
  std::snprintf(last_error, sizeof last_error, "[%s] %.*s", where, static_cast<int>(message.size()),
                message.data());
  return status;
}

std::span<const int64_t> integers(const mala_integers& list, const char* name) {
  need(list.data ? list.count > 0 : list.count == 0, name, ".count is ", list.count, " with data ",
       list.data ? "given" : "null", "; give as many as there are, or zero in both for none");
  need(is_aligned<int64_t>(list.data), name, ".data is ", list.data, ", a multiple of ",
       alignof(int64_t), " is needed; it must point to int64_t");
  return {list.data, static_cast<size_t>(list.count)};
}

AttentionOptions options(const mala_options* pointer) {
  const mala_options given = known(pointer, "options");
  AttentionOptions options{.rule = choice(given.rule, Rule::kInline, "options.rule"),
                           .norm = norm(given.norm),
                           .feature = choice(given.feature, Feature::kIdentity, "options.feature"),
                           .key_mean = given.key_mean != 0,
                           .scale = {},
                           .eps = given.eps,
                           .q_rope = rope(given.q_rope, "options.q_rope.kind"),
                           .k_rope = rope(given.k_rope, "options.k_rope.kind")};
  if (given.scale != 0) options.scale = given.scale;
  return options;
}

}  // namespace mala::c

const char* mala_last_error(void) { return mala::c::last_error; }

const char* mala_version(void) { return MALA_VERSION; }
