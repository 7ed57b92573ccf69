// The words and numbers of torch.ops.mala.attention as the kernels' options, and back.
#include "mala/ops/options.h"

#include <c10/util/Exception.h>

#include <array>
#include <string>
#include <utility>

namespace mala::ops {
namespace {

template <typename Value, size_t count>
using Words = std::array<std::pair<std::string_view, Value>, count>;

constexpr Words<Rule, 3> kRules = {
    {{"mala", Rule::kMala}, {"linear", Rule::kLinear}, {"inline", Rule::kInline}}};
constexpr Words<Norm, 3> kNorms = {
    {{"published", Norm::kPublished}, {"printed", Norm::kPrinted}, {"balanced", Norm::kBalanced}}};
constexpr Words<Feature, 4> kFeatures = {{{"elu1", Feature::kElu1},
                                          {"relu", Feature::kRelu},
                                          {"exp", Feature::kExp},
                                          {"identity", Feature::kIdentity}}};
constexpr Words<Rope::Kind, 4> kRopes = {{{"none", Rope::Kind::kNone},
                                          {"1d", Rope::Kind::kLine},
                                          {"2d", Rope::Kind::kGrid},
                                          {"table", Rope::Kind::kTable}}};

template <typename Value, size_t count>
std::string list_words(const Words<Value, count>& words) {
  std::string list;
  for (const auto& [word, value] : words) {
    list += (list.empty() ? "\"" : ", \"") + std::string(word) + "\"";
  }
  return list;
}

template <typename Value, size_t count>
Value value_of(const char* name, std::string_view asked, const Words<Value, count>& words) {
  for (const auto& [word, value] : words) {
    if (word == asked) return value;
  }
  TORCH_CHECK(false, "[mala::attention] ", name, " is \"", asked, "\"; valid are ",
              list_words(words));
}

template <typename Value, size_t count>
std::string_view word_of(Value asked, const Words<Value, count>& words) {
  for (const auto& [word, value] : words) {
    if (value == asked) return word;
  }
  TORCH_CHECK(false, "[mala::attention] option value ", static_cast<int>(asked),
              " is none of those listed in mala/kernels/attention.h");
}

void check_pair(const char* name, c10::SymIntArrayRef values) {
  TORCH_CHECK(values.size() == 2, "[mala::attention] ", name, " has ", values.size(),
              " values; give two, for q and for k");
}

// A table is rows of D / 2 floats with one row stride for cos and sin, as the kernels read it.
void check_table(const Tensor& cos, const Tensor& sin, const Tensor& x) {
  for (const Tensor& table : {cos, sin}) {
    TORCH_CHECK(table.scalar_type() == at::kFloat && table.device() == x.device(),
                "[mala::attention] rope_table holds ", table.scalar_type(), " on ", table.device(),
                "; it must be float32, whatever the type of q, on ", x.device());
    TORCH_CHECK(table.dim() == 2 && table.sym_size(1) * 2 == x.sym_size(3),
                "[mala::attention] rope_table has sizes ", table.sym_sizes(),
                "; it must be (tokens, D / 2) with D = ", x.sym_size(3));
    TORCH_CHECK(table.sym_stride(1) == 1, "[mala::attention] rope_table has strides ",
                table.sym_strides(), "; its last must be 1: call .contiguous() on it");
  }
  TORCH_CHECK(cos.sym_sizes() == sin.sym_sizes() && cos.sym_stride(0) == sin.sym_stride(0),
              "[mala::attention] rope_table has cos of sizes ", cos.sym_sizes(), ", strides ",
              cos.sym_strides(), " and sin of sizes ", sin.sym_sizes(), ", strides ",
              sin.sym_strides(), "; they must be alike: call .contiguous() on both");
}

// rope_table is (cos, sin) for both sides, or (q_cos, q_sin, k_cos, k_sin).
size_t table_index(const AttentionCall& call, size_t side) {
  return call.tables().size() == 4 ? 2 * side : 0;
}

void check_tables(const AttentionCall& call) {
  const size_t count = call.tables().size();
  TORCH_CHECK(count == 2 || count == 4, "[mala::attention] rope \"table\" came with ", count,
              " tensors in rope_table; give [cos, sin] or [q_cos, q_sin, k_cos, k_sin]");
  for (const size_t side : {0, 1}) {
    const size_t i = table_index(call, side);
    check_table(call.tables()[i], call.tables()[i + 1], side == 0 ? call.q : call.k);
  }
}

// What a forgotten `rope` would leave without effect.
void check_unused(const AttentionCall& call, Rope::Kind rope) {
  for (const c10::SymInt& width : call.grid_width) {
    TORCH_CHECK(rope == Rope::Kind::kGrid || width == 0, "[mala::attention] rope is \"", call.rope,
                "\" but grid_width is given; leave it out, or set rope=\"2d\"");
  }
  const bool has_positions = rope == Rope::Kind::kLine || rope == Rope::Kind::kGrid;
  for (const c10::SymInt& offset : call.rope_offset) {
    TORCH_CHECK(has_positions || offset == 0, "[mala::attention] rope is \"", call.rope,
                "\" but rope_offset is given; leave it out, or set rope=\"1d\" or \"2d\"");
  }
}

int64_t number(const c10::SymInt& value) { return value.guard_int(__FILE__, __LINE__); }

// side: 0 for q, 1 for k.
Rope kernel_rope(const AttentionCall& call, size_t side) {
  switch (rope_from(call.rope)) {
    case Rope::Kind::kNone:
      return Rope::none();
    case Rope::Kind::kLine:
      return Rope::line(number(call.rope_offset[side]));
    case Rope::Kind::kGrid:
      return Rope::grid(number(call.grid_width[side]), number(call.rope_offset[side]));
    case Rope::Kind::kTable:
      break;
  }
  const Tensor& cos = call.tables()[table_index(call, side)];
  const Tensor& sin = call.tables()[table_index(call, side) + 1];
  return Rope::table(cos.const_data_ptr<float>(), sin.const_data_ptr<float>(), cos.size(0),
                     cos.stride(0));
}

}  // namespace

Rule rule_from(std::string_view word) { return value_of("rule", word, kRules); }
Norm norm_from(std::string_view word) { return value_of("norm", word, kNorms); }
Feature feature_from(std::string_view word) { return value_of("feature", word, kFeatures); }
Rope::Kind rope_from(std::string_view word) { return value_of("rope", word, kRopes); }

std::string_view word_for(Rule rule) { return word_of(rule, kRules); }
std::string_view word_for(Norm norm) { return word_of(norm, kNorms); }
std::string_view word_for(Feature feature) { return word_of(feature, kFeatures); }
std::string_view word_for(Rope::Kind rope) { return word_of(rope, kRopes); }

void check_options(const AttentionCall& call) {
  rule_from(call.rule);
  norm_from(call.norm);
  feature_from(call.feature);
  check_pair("rope_offset", call.rope_offset);
  check_pair("grid_width", call.grid_width);
  const Rope::Kind rope = rope_from(call.rope);
  if (rope == Rope::Kind::kGrid && !call.grid_widths) {
    for (const c10::SymInt& width : call.grid_width) {
      TORCH_CHECK(width >= 1, "[mala::attention] rope \"2d\" came with grid_width ", width,
                  "; give the number of tokens in a row of the image");
    }
  }
  check_unused(call, rope);
  TORCH_CHECK(rope == Rope::Kind::kGrid || !call.grid_widths, "[mala::attention] rope is \"",
              call.rope, "\" but grid_widths is given; leave it out, or set rope=\"2d\"");
  if (rope == Rope::Kind::kTable) return check_tables(call);
  TORCH_CHECK(call.tables().empty(), "[mala::attention] rope is \"", call.rope,
              "\" but rope_table is given; leave it out, or set rope=\"table\"");
}

AttentionOptions kernel_options(const AttentionCall& call) {
  return {.rule = rule_from(call.rule),
          .norm = norm_from(call.norm),
          .feature = feature_from(call.feature),
          .key_mean = call.key_mean,
          .scale = call.scale,
          .eps = call.eps,
          .q_rope = kernel_rope(call, 0),
          .k_rope = kernel_rope(call, 1)};
}

}  // namespace mala::ops
