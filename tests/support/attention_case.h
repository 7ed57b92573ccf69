// One call of the operator, described by value: sizes, options, layouts, and where its random
// numbers come from. Every test of the kernels is made of these.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mala/kernels/attention.h"
#include "tests/support/tensor.h"

namespace mala::test {

// Every tensor of a call that the caller lays out.
enum Slot { kQ, kK, kV, kLocal, kGate, kG, kOut, kDq, kDk, kDv, kDlocal, kDgate, kSlots };
inline constexpr int kFirstOutput = kOut;

// The numbers that Lengths points to.
struct CaseLengths {
  std::vector<int64_t> key_counts{}, q_offsets{}, k_offsets{}, q_widths{}, k_widths{};

  Lengths view() const { return {key_counts, q_offsets, k_offsets, q_widths, k_widths}; }
};

struct AttentionCase {
  int64_t batch = 1, heads = 1;
  int64_t group = 1;  // query heads that share a head of k and v
  int64_t queries = 5, keys = 7, dim = 8, value_dim = 8;
  AttentionOptions options{};  // a table's pointers and rows are filled in by AttentionProblem
  CaseLengths lengths{};       // keys and values beyond a count are NaN
  bool local = false, gate = false;
  std::array<Layout, kSlots> layouts{};
  int64_t misalign = 0;  // elements, of every tensor, the state and the scratch
  uint64_t seed = 1;
  double q_low = -1, q_high = 1, k_low = -1, k_high = 1;
  double table_angle = 3;   // largest angle of a random table
  int64_t table_spare = 1;  // rows of it beyond those that the tokens need

  int64_t kv_heads() const { return heads / group; }
  bool packed() const { return !lengths.q_offsets.empty(); }
  int64_t sequences() const;
  double scale() const;
  bool has_rope() const;

  // Makes it a case of packed sequences with so many tokens each.
  void pack(const std::vector<int64_t>& q_lengths, const std::vector<int64_t>& k_lengths);
  void set_tail(int kind) { local = kind & 1, gate = kind & 2; }
  void set_input_layouts(Layout layout);
  void set_output_layouts(Layout layout);
};

inline constexpr std::array kRules{Rule::kMala, Rule::kLinear, Rule::kInline};
inline constexpr std::array kNorms{Norm::kPublished, Norm::kPrinted, Norm::kBalanced};
inline constexpr std::array kFeatures{Feature::kElu1, Feature::kRelu, Feature::kExp,
                                      Feature::kIdentity};
inline constexpr std::array kRopeKinds{Rope::Kind::kNone, Rope::Kind::kLine, Rope::Kind::kGrid,
                                       Rope::Kind::kTable};

inline AttentionOptions options_of(Rule rule, Norm norm, Feature feature = Feature::kElu1) {
  AttentionOptions options;
  options.rule = rule;
  options.norm = norm;
  options.feature = feature;
  return options;
}

// A rotation of this kind with small numbers in it, offsets included.
Rope some_rope(Rope::Kind kind, int64_t offset);

// Every rule, norm, feature, RoPE and key_mean.
std::vector<AttentionOptions> every_option(int64_t q_offset, int64_t k_offset);

// The same case with data on which float results can be expected to be exact to a few roundings:
// positive where the features are the numbers themselves, and for `printed` with RoPE an eps so
// large that r + eps stays away from the pole at zero.
AttentionCase well_conditioned(AttentionCase c);

// The whole case in one line, for the message of a failing test.
std::string describe(const AttentionCase& c);

}  // namespace mala::test
