// The words and numbers of torch.ops.mala.* as the kernels' options, and back.
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
const Value* find_value(std::string_view asked, const Words<Value, count>& words) {
  for (const auto& [word, value] : words) {
    if (word == asked) return &value;
  }
  return nullptr;
}

template <typename Value, size_t count>
void check_word(const char* where, const char* name, std::string_view asked,
                const Words<Value, count>& words) {
  TORCH_CHECK(find_value(asked, words), "[", where, "] ", name, " is \"", asked, "\"; valid are ",
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

void check_pair(const char* where, const char* name, c10::SymIntArrayRef values) {
  TORCH_CHECK(values.size() == 2, "[", where, "] ", name, " has ", values.size(),
              " values; give two, for q and for k");
}

// A table is rows of D / 2 floats with one row stride for cos and sin, as the kernels read it.
void check_table(const char* where, const Tensor& cos, const Tensor& sin, const Tensor& x) {
  for (const Tensor& table : {cos, sin}) {
    TORCH_CHECK(table.scalar_type() == at::kFloat && table.device() == x.device(), "[", where,
                "] rope_table holds ", table.scalar_type(), " on ", table.device(),
                "; it must be float32, whatever the type of q, on ", x.device());
    TORCH_CHECK(table.dim() == 2 && table.sym_size(1) * 2 == x.sym_size(3), "[", where,
                "] rope_table has sizes ", table.sym_sizes(),
                "; it must be (tokens, D / 2) with D = ", x.sym_size(3));
    TORCH_SYM_CHECK(table.sym_size(0).sym_ge(1), "[", where, "] rope_table has sizes ",
                    table.sym_sizes(), "; it needs a row for each token");
    TORCH_CHECK(table.sym_stride(1) == 1, "[", where, "] rope_table has strides ",
                table.sym_strides(), "; its last must be 1: call .contiguous() on it");
  }
  TORCH_CHECK(cos.sym_sizes() == sin.sym_sizes() && cos.sym_stride(0) == sin.sym_stride(0), "[",
              where, "] rope_table has cos of sizes ", cos.sym_sizes(), ", strides ",
              cos.sym_strides(), " and sin of sizes ", sin.sym_sizes(), ", strides ",
              sin.sym_strides(), "; they must be alike: call .contiguous() on both");
}

// What a forgotten `rope` would leave without effect.
void check_unused(const char* where, const RopeArguments& given, Rope::Kind kind, bool has_widths) {
  const bool has_positions = kind == Rope::Kind::kLine || kind == Rope::Kind::kGrid;
  const auto refuse_unless = [&](bool ok, const char* name, const char* right) {
    TORCH_CHECK(ok, "[", where, "] rope is \"", given.rope, "\" but ", name,
                " is given; leave it out, or set rope=", right);
  };
  refuse_unless(kind == Rope::Kind::kGrid || given.grid_width == 0, "grid_width", "\"2d\"");
  refuse_unless(kind == Rope::Kind::kGrid || !has_widths, "grid_widths", "\"2d\"");
  refuse_unless(has_positions || given.rope_offset == 0, "rope_offset", "\"1d\" or \"2d\"");
  refuse_unless(kind == Rope::Kind::kTable || given.tables().empty(), "rope_table", "\"table\"");
}

int64_t number(const c10::SymInt& value) { return value.guard_int(__FILE__, __LINE__); }

Rope kernel_rope(const RopeArguments& given) {
  switch (*find_value(given.rope, kRopes)) {
    case Rope::Kind::kNone:
      return Rope::none();
    case Rope::Kind::kLine:
      return Rope::line(number(given.rope_offset));
    case Rope::Kind::kGrid:
      return Rope::grid(number(given.grid_width), number(given.rope_offset));
    case Rope::Kind::kTable:
      break;
  }
  const Tensor &cos = given.tables()[0], &sin = given.tables()[1];
  return Rope::table(cos.const_data_ptr<float>(), sin.const_data_ptr<float>(), cos.size(0),
                     cos.stride(0));
}

AttentionOptions without_ropes(const WeightArguments& weights) {
  AttentionOptions options{.rule = *find_value(weights.rule, kRules),
                           .norm = {},
                           .feature = *find_value(weights.feature, kFeatures),
                           .key_mean = weights.key_mean,
                           .scale = weights.scale,
                           .eps = weights.eps};
  if (weights.norm) options.norm = *find_value(*weights.norm, kNorms);
  return options;
}

}  // namespace

std::string_view word_for(Rule rule) { return word_of(rule, kRules); }
std::string_view word_for(Norm norm) { return word_of(norm, kNorms); }
std::string_view word_for(Feature feature) { return word_of(feature, kFeatures); }
std::string_view word_for(Rope::Kind rope) { return word_of(rope, kRopes); }

void check_feature(const char* where, std::string_view feature) {
  check_word(where, "feature", feature, kFeatures);
}

void check_weights(const char* where, const WeightArguments& weights) {
  check_word(where, "rule", weights.rule, kRules);
  if (weights.norm) check_word(where, "norm", *weights.norm, kNorms);
  check_feature(where, weights.feature);
}

void check_rope(const char* where, const RopeArguments& rope, const Tensor& x, bool has_widths) {
  check_word(where, "rope", rope.rope, kRopes);
  const Rope::Kind kind = *find_value(rope.rope, kRopes);
  check_unused(where, rope, kind, has_widths);
  if (kind == Rope::Kind::kGrid && !has_widths) {
    TORCH_CHECK(rope.grid_width >= 1, "[", where, "] rope \"2d\" came with grid_width ",
                rope.grid_width, "; give the number of tokens in a row of the image");
  }
  if (kind != Rope::Kind::kTable) return;
  TORCH_CHECK(rope.tables().size() == 2, "[", where, "] rope \"table\" came with ",
              rope.tables().size(), " tensors in rope_table; give [cos, sin]");
  check_table(where, rope.tables()[0], rope.tables()[1], x);
}

void check_ropes(const char* where, const AttentionCall& call) {
  const RopePairArguments& ropes = call.ropes;
  check_pair(where, "rope_offset", ropes.rope_offset);
  check_pair(where, "grid_width", ropes.grid_width);
  const size_t count = ropes.tables().size();
  TORCH_CHECK(ropes.rope != "table" || count == 2 || count == 4, "[", where,
              "] rope \"table\" came with ", count,
              " tensors in rope_table; give [cos, sin] or [q_cos, q_sin, k_cos, k_sin]");
  const bool has_widths = call.lengths.grid_widths.has_value();
  check_rope(where, ropes.side(0), call.q, has_widths);
  check_rope(where, ropes.side(1), call.k, has_widths);
}

AttentionOptions kernel_options(const AttentionCall& call) {
  AttentionOptions options = without_ropes(call.weights);
  options.q_rope = kernel_rope(call.ropes.side(0));
  options.k_rope = kernel_rope(call.ropes.side(1));
  return options;
}

AttentionOptions kernel_options(const KeysCall& call) {
  AttentionOptions options;
  options.feature = *find_value(call.feature, kFeatures);
  options.k_rope = kernel_rope(call.rope);
  return options;
}

AttentionOptions kernel_options(const QueriesCall& call) {
  AttentionOptions options = without_ropes(call.weights);
  options.q_rope = kernel_rope(call.rope);
  return options;
}

}  // namespace mala::ops
