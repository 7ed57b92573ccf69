// Compares results sequence by sequence.
#include <gtest/gtest.h>

#include <array>

#include "tests/support/compare.h"
#include "tests/support/sequence_comparison.h"
#include "tests/support/sequences.h"

namespace mala::test {
namespace {

void expect_no_uncounted_gradients(const AttentionResults& actual, const AttentionCase& c,
                                   int64_t sequence) {
  const std::vector<double> uncounted = uncounted_gradients(actual, c, sequence);
  EXPECT_EQ(max_error(uncounted, std::vector<double>(uncounted.size())), 0)
      << "keys beyond the count have gradients";
}

template <typename T>
void expect_states_close(const CausalResults& actual, const CausalResults& expected,
                         const CausalCase& c, int64_t s, SequenceComparison<T>& sequence) {
  static const std::array<std::string, kStateParts> kNames{"S", "sum phi(k)", "sum R phi(k)",
                                                           "sum v"};
  const TermSizes& sizes = sequence.sizes();
  const double keys =
      sizes.features * static_cast<double>(c.before_of(s) + sequence_case(c.tokens, s).keys);
  const std::array<double, kStateParts> after_sizes{keys, keys, keys, keys},
      gradient_sizes{sizes.kv, sizes.k, sizes.k, sizes.v};
  for (int part = 0; part < kStateParts; ++part) {
    auto part_of = [&](const std::vector<double>& all) {
      return state_part(all, c.tokens, s, part);
    };
    sequence.expect_state("after the call, " + kNames[part], part_of(actual.after),
                          part_of(expected.after), after_sizes[part]);
    sequence.expect_state("the gradient before the call, of " + kNames[part],
                          part_of(actual.before_gradient), part_of(expected.before_gradient),
                          gradient_sizes[part]);
  }
}

}  // namespace

template <typename T>
void expect_close(const AttentionResults& actual, const AttentionResults& expected,
                  const AttentionCase& c, const AttentionResults& moved) {
  const CaseLengths& lengths = c.lengths;
  if (lengths.key_counts.empty() && !c.packed() && lengths.q_widths.empty() &&
      lengths.k_widths.empty()) {
    SequenceComparison<T>(c, sight_of(c), 0).expect_tokens(actual, expected, moved);
    return;
  }
  bool close = true;
  for (int64_t s = 0; s < c.sequences() && close; ++s) {
    SCOPED_TRACE(str("sequence ", s, " of ", describe(c)));
    const AttentionCase one = sequence_case(c, s);
    SequenceComparison<T> sequence(one, sight_of(one), 0);
    sequence.expect_tokens(sequence_results(actual, c, s), sequence_results(expected, c, s),
                           sequence_results(moved, c, s));
    close = sequence.close();
    expect_no_uncounted_gradients(actual, c, s);
  }
}

template <typename T>
void expect_close(const CausalResults& actual, const CausalResults& expected, const CausalCase& c) {
  EXPECT_EQ(actual.counts, expected.counts) << describe(c);
  bool close = true;
  for (int64_t s = 0; s < c.tokens.sequences() && close; ++s) {
    SCOPED_TRACE(str("sequence ", s, " of ", describe(c)));
    const AttentionCase one = sequence_case(c.tokens, s);
    SequenceComparison<T> sequence(one, causal_sight_of(one, c.before_of(s)), c.before_of(s));
    sequence.expect_tokens(sequence_results(actual.tokens, c.tokens, s),
                           sequence_results(expected.tokens, c.tokens, s), {});
    expect_states_close(actual, expected, c, s, sequence);
    close = sequence.close();
    expect_no_uncounted_gradients(actual.tokens, c.tokens, s);
  }
}

#define MALA_INSTANTIATE(T)                                                       \
  template void expect_close<T>(const AttentionResults&, const AttentionResults&, \
                                const AttentionCase&, const AttentionResults&);   \
  template void expect_close<T>(const CausalResults&, const CausalResults&, const CausalCase&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::test
