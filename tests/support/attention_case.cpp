// Cases of the operator: their data and their description.
#include "tests/support/attention_case.h"

#include <algorithm>
#include <cmath>

#include "mala/core/error.h"

namespace mala::test {
namespace {

std::string describe(const Rope& rope) {
  switch (rope.kind) {
    case Rope::Kind::kLine:
      return str("line(offset ", rope.offset, ")");
    case Rope::Kind::kGrid:
      return str("grid(width ", rope.width, ", offset ", rope.offset, ")");
    case Rope::Kind::kTable:
      return "table";
    case Rope::Kind::kNone:
      break;
  }
  return "none";
}

std::string describe(const AttentionOptions& o) {
  static const char* const kRuleNames[] = {"mala", "linear", "inline"};
  static const char* const kNormNames[] = {"published", "printed", "balanced"};
  static const char* const kFeatureNames[] = {"elu1", "relu", "exp", "identity"};
  return str(kRuleNames[static_cast<int>(o.rule)], " ",
             o.norm ? kNormNames[static_cast<int>(*o.norm)] : "default", " ",
             kFeatureNames[static_cast<int>(o.feature)], " key_mean=", o.key_mean,
             " scale=", o.scale ? str(*o.scale) : "default", " eps=", o.eps,
             " q_rope=", describe(o.q_rope), " k_rope=", describe(o.k_rope));
}

std::string describe(const CaseLengths& lengths) {
  std::string text;
  auto add = [&text](const char* what, const std::vector<int64_t>& numbers) {
    if (numbers.empty()) return;
    text += str(" ", what, "=");
    for (const int64_t number : numbers) text += str(number, ",");
    text.pop_back();
  };
  add("key_counts", lengths.key_counts);
  add("q_offsets", lengths.q_offsets);
  add("k_offsets", lengths.k_offsets);
  add("q_widths", lengths.q_widths);
  add("k_widths", lengths.k_widths);
  return text;
}

// 0, then the sums of the first one, two, ... lengths.
std::vector<int64_t> offsets_of(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets{0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

}  // namespace

int64_t AttentionCase::sequences() const {
  return packed() ? static_cast<int64_t>(lengths.q_offsets.size()) - 1 : batch;
}

void AttentionCase::pack(const std::vector<int64_t>& q_lengths,
                         const std::vector<int64_t>& k_lengths) {
  batch = 1;
  lengths.q_offsets = offsets_of(q_lengths);
  lengths.k_offsets = offsets_of(k_lengths);
  queries = lengths.q_offsets.back();
  keys = lengths.k_offsets.back();
}

double AttentionCase::scale() const {
  return options.scale.value_or(1 / std::sqrt(static_cast<double>(dim)));
}

bool AttentionCase::has_rope() const {
  return options.q_rope.kind != Rope::Kind::kNone || options.k_rope.kind != Rope::Kind::kNone;
}

void AttentionCase::set_input_layouts(Layout layout) {
  std::fill(layouts.begin(), layouts.begin() + kFirstOutput, layout);
}

void AttentionCase::set_output_layouts(Layout layout) {
  std::fill(layouts.begin() + kFirstOutput, layouts.end(), layout);
}

Rope some_rope(Rope::Kind kind, int64_t offset) {
  return {.kind = kind, .offset = kind == Rope::Kind::kTable ? 0 : offset, .width = 3};
}

std::vector<AttentionOptions> every_option(int64_t q_offset, int64_t k_offset) {
  std::vector<AttentionOptions> all;
  for (const Rule rule : kRules)
    for (const Norm norm : kNorms)
      for (const Feature feature : kFeatures)
        for (const Rope::Kind kind : kRopeKinds)
          for (const bool key_mean : {true, false}) {
            AttentionOptions& options = all.emplace_back(options_of(rule, norm, feature));
            options.key_mean = key_mean;
            options.q_rope = some_rope(kind, q_offset);
            options.k_rope = some_rope(kind, k_offset);
          }
  return all;
}

AttentionCase well_conditioned(AttentionCase c) {
  if (c.options.feature == Feature::kIdentity) c.q_low = c.k_low = 0.25;
  // With few dims a query may otherwise have no positive number at all, and s would be zero; still
  // more so where it meets a single key.
  const bool short_sequences = !c.lengths.key_counts.empty() || c.packed();
  if (c.options.feature == Feature::kRelu) c.q_low = c.k_low = short_sequences ? -0.1 : -0.4;
  if (c.options.norm == Norm::kPrinted && c.has_rope()) {
    // |r| is hardly above 1.9 * scale * D * kappa * M: the mean square of the features is at most
    // that of exp, 1.8.
    const double seen = c.options.key_mean ? 1 : static_cast<double>(c.keys);
    c.options.eps = 4 * std::abs(c.scale()) * static_cast<double>(c.dim) * seen;
  }
  return c;
}

std::string describe(const AttentionCase& c) {
  std::string text = str(
      "B=", c.batch, " H=", c.heads, " group=", c.group, " N=", c.queries, " M=", c.keys,
      " D=", c.dim, " E=", c.value_dim, " ", describe(c.options), " local=", c.local,
      " gate=", c.gate, " misalign=", c.misalign, " q=[", c.q_low, ",", c.q_high, "] k=[", c.k_low,
      ",", c.k_high, "] angle=", c.table_angle, " seed=", c.seed, describe(c.lengths), " layouts=");
  for (const Layout layout : c.layouts) text += name(layout) + ",";
  text.pop_back();
  return text;
}

}  // namespace mala::test
