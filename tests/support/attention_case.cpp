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
  return str(kRuleNames[static_cast<int>(o.rule)], " ", kNormNames[static_cast<int>(o.norm)], " ",
             kFeatureNames[static_cast<int>(o.feature)], " key_mean=", o.key_mean,
             " scale=", o.scale ? str(*o.scale) : "default", " eps=", o.eps,
             " q_rope=", describe(o.q_rope), " k_rope=", describe(o.k_rope));
}

}  // namespace

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

AttentionCase well_conditioned(AttentionCase c) {
  if (c.options.feature == Feature::kIdentity) c.q_low = c.k_low = 0.25;
  // With few dims a query may otherwise have no positive number at all, and s would be zero.
  if (c.options.feature == Feature::kRelu) c.q_low = c.k_low = -0.4;
  if (c.options.norm == Norm::kPrinted && c.has_rope()) {
    // |r| is hardly above 1.9 * scale * D * kappa * M: the mean square of the features is at most
    // that of exp, 1.8.
    const double seen = c.options.key_mean ? 1 : static_cast<double>(c.keys);
    c.options.eps = 4 * std::abs(c.scale()) * static_cast<double>(c.dim) * seen;
  }
  return c;
}

std::string describe(const AttentionCase& c) {
  std::string text =
      str("B=", c.batch, " H=", c.heads, " N=", c.queries, " M=", c.keys, " D=", c.dim,
          " E=", c.value_dim, " ", describe(c.options), " local=", c.local, " gate=", c.gate,
          " misalign=", c.misalign, " q=[", c.q_low, ",", c.q_high, "] k=[", c.k_low, ",", c.k_high,
          "] angle=", c.table_angle, " seed=", c.seed, " layouts=");
  for (const Layout layout : c.layouts) text += name(layout) + ",";
  text.pop_back();
  return text;
}

}  // namespace mala::test
