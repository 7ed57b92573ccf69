// Wrong calls of the halves: each is refused with a message that helps, before anything is written.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/split_call.h"

namespace mala::test {
namespace {

// Whatever is wrong with keys, queries or options is refused by all that take them.
void expect_keys_refused(const AttentionCase& legal, const SplitSpoil& spoil, const Facts& facts) {
  expect_refusal(legal, {kKeysScratch, kKeysForward, kKeysBackward}, spoil, facts);
}
void expect_queries_refused(const AttentionCase& legal, const SplitSpoil& spoil,
                            const Facts& facts) {
  expect_refusal(legal, {kQueriesScratch, kQueriesForward, kQueriesBackward}, spoil, facts);
}

AttentionCase plain_case() {
  AttentionCase c{.batch = 2, .heads = 4, .group = 2, .queries = 5, .keys = 7, .value_dim = 16};
  c.set_tail(3);
  return c;
}

AttentionCase counted_case() {
  AttentionCase c = plain_case();
  c.lengths.key_counts = {7, 2};
  return c;
}

AttentionCase packed_case() {
  AttentionCase c = plain_case();
  c.pack({4, 1, 4}, {4, 6, 2});
  return c;
}

SplitSpoil set(Numbers CaseLengths::*place, const Numbers& numbers) {
  return [=](SplitCall& c) { c.set_lengths([&](CaseLengths& x) { x.*place = numbers; }); };
}

TEST(SplitErrors, LegalCallsAreTaken) {
  for (const AttentionCase& c : {plain_case(), counted_case(), packed_case()}) {
    const SplitCall call(c);
    for (const Entry& entry : {kKeysScratch, kQueriesScratch, kKeysForward, kQueriesForward,
                               kQueriesBackward, kKeysBackward})
      EXPECT_NO_THROW((call.*entry.run)()) << entry.name;
    EXPECT_FALSE(call.nothing_written());
  }
}

TEST(SplitErrors, KeysAndValuesThatDoNotFit) {
  const AttentionCase legal = plain_case();
  auto refuse = [&](const SplitSpoil& spoil, const Facts& facts) {
    expect_keys_refused(legal, spoil, facts);
  };
  refuse([](SplitCall& c) { c.keys.k.data = nullptr; }, {"k has no data"});
  refuse([](SplitCall& c) { c.keys.v.data = nullptr; }, {"v has no data"});
  refuse([](SplitCall& c) { c.keys.k.tokens = 0; }, {"k has shape (2, 2, 0, 8)", "at least 1"});
  refuse([](SplitCall& c) { c.keys.v.tokens = 6; }, {"v has 6 tokens", "k has 7"});
  refuse([](SplitCall& c) { c.keys.v.heads = 1; }, {"(2, 1, 7, 16)", "(2, 2, 7, 16)"});
  refuse([](SplitCall& c) { c.keys.v.batch = 1; }, {"(1, 2, 7, 16)", "(2, 2, 7, 16)"});
  refuse([](SplitCall& c) { c.keys.k.dim = 4; }, {"k has head size 4", "multiple of 8", "pad"});
  refuse([](SplitCall& c) { c.keys.v.dim = 12; }, {"v has head size 12", "multiple of 8", "pad"});
  refuse([](SplitCall& c) { c.keys.k.batch = c.keys.v.batch = int64_t{1} << 40; },
         {"k has 1099511627776 times 2 heads", "check its sizes"});
}

TEST(SplitErrors, QueriesThatDoNotFit) {
  const AttentionCase legal = plain_case();
  auto refuse = [&](const SplitSpoil& spoil, const Facts& facts) {
    expect_queries_refused(legal, spoil, facts);
  };
  refuse([](SplitCall& c) { c.queries.q.data = nullptr; }, {"q has no data"});
  refuse([](SplitCall& c) { c.queries.q.heads = 0; }, {"q has shape (2, 0, 5, 8)", "at least 1"});
  refuse([](SplitCall& c) { c.queries.q.dim = 264; }, {"q has head size 264", "up to 256"});
  refuse([](SplitCall& c) { c.queries.local.tokens = 4; },
         {"local has shape (2, 4, 4, 16)", "(2, 4, 5, 16)"});
  refuse([](SplitCall& c) { c.queries.gate.dim = 8; },
         {"gate has shape (2, 4, 5, 8)", "(2, 4, 5, 16)"});
}

TEST(SplitErrors, HeadsThatDoNotDivide) {
  for (const int64_t heads : {3, 8, 0, -2}) {
    expect_queries_refused(plain_case(), [=](SplitCall& c) { c.total.heads = heads; },
                           {str("the state has ", heads, " heads"), "q has 4", "divide"});
  }
}

TEST(SplitErrors, ValuesOfAnotherSize) {
  for (const int64_t dim : {0, -8, 12, 264}) {
    expect_refusal(plain_case(), {kQueriesScratch}, [=](SplitCall& c) { c.value_dim = dim; },
                   {str("v has head size ", dim), "multiple of 8 up to 256"});
  }
  // The state was made for values of 16.
  expect_refusal(plain_case(), {kQueriesForward},
                 [](SplitCall& c) {
                   c.queries.local = c.queries.gate = {};
                   c.out.dim = 8;
                 },
                 {"state has 640 numbers but 352 are needed"});
}

TEST(SplitErrors, StatesOfAnotherSize) {
  const int64_t needed = attention_state_size(2, 2, 8, 16);
  const std::vector<float> other(needed + 1, 1.0f);
  for (const int64_t size : {int64_t{0}, needed - 1, needed + 1}) {
    const std::string came = str(" has ", size, " numbers but ", needed, " are needed");
    const Facts facts{"state" + came, "attention_state_size"};
    expect_queries_refused(
        plain_case(), [&](SplitCall& c) { c.total.sums = std::span(other).first(size); }, facts);
    std::vector<float> written(size);
    expect_refusal(
        plain_case(), {kKeysForward}, [&](SplitCall& c) { c.state = written; }, facts);
    const Facts gradient_facts{"state_gradient" + came, "attention_state_size"};
    expect_refusal(
        plain_case(), {kQueriesBackward}, [&](SplitCall& c) { c.gradient_of_own = written; },
        gradient_facts);
    expect_refusal(
        plain_case(), {kKeysBackward}, [&](SplitCall& c) { c.gradient_of_all = written; },
        gradient_facts);
    for (const float number : written) EXPECT_EQ(number, 0);
  }
  // One state for each packed sequence.
  auto shorten = [](SplitCall& c) { c.state = c.state.first(c.state.size() - 1); };
  expect_refusal(packed_case(), {kKeysForward}, shorten,
                 {str(attention_state_size(3, 2, 8, 16), " are needed")});
}

TEST(SplitErrors, CountsOfTheState) {
  auto refuse = [](const Numbers& numbers, const Facts& facts) {
    expect_queries_refused(
        plain_case(), [&](SplitCall& c) { c.set_counts(numbers); }, facts);
  };
  const std::string name = "the state's key_counts";
  refuse({}, {name + " has 0 numbers for 2 sequences", "one for each"});
  refuse({7}, {name + " has 1 numbers for 2 sequences"});
  refuse({7, 7, 7}, {name + " has 3 numbers for 2 sequences"});
  refuse({7, 0}, {name + "[1] is 0", "1 to 2^40", "of all callers"});
  refuse({-3, 7}, {name + "[0] is -3", "1 to 2^40"});
  refuse({7, int64_t{1} << 40}, {name + "[1] is 1099511627776", "1 to 2^40"});
  expect_queries_refused(packed_case(),
                         [](SplitCall& c) {
                           c.set_counts({4, 6});
                         },
                         {name + " has 2 numbers for 3 sequences"});
}

TEST(SplitErrors, LengthsOfKeys) {
  auto refuse_counts = [](const Numbers& numbers, const Facts& facts) {
    expect_keys_refused(counted_case(), set(&CaseLengths::key_counts, numbers), facts);
  };
  refuse_counts({7, 0}, {"key_counts[1] is 0", "1 to 7", "leave empty entries out"});
  refuse_counts({8, 1}, {"key_counts[0] is 8", "1 to 7"});
  refuse_counts({7}, {"key_counts has 1 numbers", "batch of 2"});
  auto refuse_offsets = [](const Numbers& numbers, const Facts& facts) {
    expect_keys_refused(packed_case(), set(&CaseLengths::k_offsets, numbers), facts);
  };
  refuse_offsets({0}, {"k_offsets has 1 numbers", "S + 1"});
  refuse_offsets({1, 4, 12}, {"k_offsets[0] is 1", "begin at 0"});
  refuse_offsets({0, 4, 4, 12}, {"k_offsets[2] is 4 after 4", "rise"});
  refuse_offsets({0, 4, 10, 11}, {"k_offsets[3] is 11", "number of tokens, 12"});
  expect_keys_refused(packed_case(), set(&CaseLengths::key_counts, {12}),
                      {"key_counts came with offsets", "one or the other"});
  expect_keys_refused(plain_case(), set(&CaseLengths::k_offsets, {0, 7}),
                      {"batch of 2", "batch of 1"});
  expect_keys_refused(plain_case(), set(&CaseLengths::k_widths, {3}),
                      {"k_widths has 1 numbers for 2 sequences"});
  expect_keys_refused(plain_case(), set(&CaseLengths::k_widths, {3, 0}), {"k_widths[1] is 0"});
}

TEST(SplitErrors, LengthsOfQueries) {
  auto refuse_offsets = [](const Numbers& numbers, const Facts& facts) {
    expect_queries_refused(packed_case(), set(&CaseLengths::q_offsets, numbers), facts);
  };
  refuse_offsets({0}, {"q_offsets has 1 numbers", "S + 1"});
  refuse_offsets({0, 5, 4, 9}, {"q_offsets[2] is 4 after 5", "rise"});
  refuse_offsets({0, 4, 5, 10}, {"q_offsets[3] is 10", "number of tokens, 9"});
  expect_queries_refused(plain_case(), set(&CaseLengths::q_offsets, {0, 5}),
                         {"batch of 2", "batch of 1"});
  expect_queries_refused(plain_case(), set(&CaseLengths::q_widths, {3, -1}),
                         {"q_widths[1] is -1", "at least 1"});
}

// The lengths of the other half say nothing, so that one Lengths may serve both.
TEST(SplitErrors, LengthsOfTheOtherHalfAreNotLookedAt) {
  SplitCall call(plain_case());
  call.set_lengths([](CaseLengths& x) {
    x.key_counts = {99};
    x.k_offsets = {5, 1};
    x.k_widths = {0};
  });
  EXPECT_NO_THROW(call.apply_queries());
  EXPECT_NO_THROW(call.go_back_queries());
  call.set_lengths([](CaseLengths& x) {
    x = {};
    x.q_offsets = {5, 1};
    x.q_widths = {0};
  });
  EXPECT_NO_THROW(call.sum_keys());
  EXPECT_NO_THROW(call.go_back_keys());
}

TEST(SplitErrors, Options) {
  auto refuse_both = [](const SplitSpoil& spoil, const Facts& facts) {
    expect_keys_refused(plain_case(), spoil, facts);
    expect_queries_refused(plain_case(), spoil, facts);
  };
  refuse_both([](SplitCall& c) { c.options.rule = static_cast<Rule>(3); }, {"rule 3 is unknown"});
  refuse_both([](SplitCall& c) { c.options.norm = static_cast<Norm>(-1); }, {"norm -1 is unknown"});
  refuse_both([](SplitCall& c) { c.options.eps = -1; }, {"eps is -1", "not negative"});
  refuse_both([](SplitCall& c) { c.options.scale = std::nan(""); }, {"scale is nan", "finite"});
}

// Each half looks at its own rotation alone.
TEST(SplitErrors, Ropes) {
  static const std::vector<float> table(100, 1.0f);
  auto rope = [](int64_t rows) { return Rope::table(table.data(), table.data(), rows, 4); };
  expect_keys_refused(plain_case(), [&](SplitCall& c) { c.options.k_rope = rope(6); },
                      {"k_rope", "table of 6 rows", "7 tokens"});
  expect_queries_refused(plain_case(), [&](SplitCall& c) { c.options.q_rope = rope(4); },
                         {"q_rope", "table of 4 rows", "5 tokens"});
  expect_keys_refused(plain_case(), [](SplitCall& c) { c.options.k_rope = Rope::grid(0); },
                      {"k_rope has width 0", "at least 1"});
  expect_queries_refused(plain_case(), [](SplitCall& c) { c.options.q_rope = Rope::line(-1); },
                         {"q_rope has offset -1", "2^40"});
  SplitCall call(plain_case());
  call.options.q_rope = rope(5);
  call.options.k_rope = rope(0);
  EXPECT_NO_THROW(call.apply_queries());
  call.options.q_rope = rope(0);
  call.options.k_rope = rope(7);
  EXPECT_NO_THROW(call.sum_keys());
}

TEST(SplitErrors, ScratchThatIsTooSmall) {
  SplitCall legal(plain_case());
  const int64_t keys = keys_scratch_bytes(legal.keys, legal.options);
  const int64_t queries =
      queries_scratch_bytes(legal.queries, legal.options, legal.total, legal.value_dim);
  auto give = [](int64_t bytes) {
    return [bytes](SplitCall& c) { c.scratch = c.scratch.first(bytes); };
  };
  expect_refusal(plain_case(), {kKeysForward, kKeysBackward}, give(keys - 1),
                 {"scratch", str("has ", keys - 1, " but ", keys), "keys_scratch_bytes"});
  expect_refusal(plain_case(), {kQueriesForward, kQueriesBackward}, give(queries - 1),
                 {"scratch", str("has ", queries - 1, " but ", queries), "queries_scratch_bytes"});
  legal.scratch = legal.scratch.first(keys);
  EXPECT_NO_THROW(legal.sum_keys());
  EXPECT_NO_THROW(legal.go_back_keys());
  legal.scratch = std::span(legal.scratch_memory).first(queries);
  EXPECT_NO_THROW(legal.apply_queries());
  EXPECT_NO_THROW(legal.go_back_queries());
}

TEST(SplitErrors, OutputsOfAnotherShape) {
  const AttentionCase legal = plain_case();
  expect_refusal(legal, {kQueriesForward}, [](SplitCall& c) { c.out.tokens = 4; },
                 {"out has shape (2, 4, 4, 16)", "(2, 4, 5, 16)"});
  expect_refusal(legal, {kQueriesForward}, [](SplitCall& c) { c.out.head_stride = 0; },
                 {"out has strides", "several elements at one address"});
  expect_refusal(legal, {kQueriesBackward}, [](SplitCall& c) { c.out_gradient.heads = 2; },
                 {"out_gradient has shape (2, 2, 5, 16)", "(2, 4, 5, 16)"});
  expect_refusal(legal, {kQueriesBackward}, [](SplitCall& c) { c.query_gradients.q.dim = 16; },
                 {"gradient of q has shape (2, 4, 5, 16)", "(2, 4, 5, 8)"});
  expect_refusal(legal, {kQueriesBackward}, [](SplitCall& c) { c.query_gradients.local = {}; },
                 {"gradient of local is missing", "both or neither"});
  expect_refusal(legal, {kQueriesBackward}, [](SplitCall& c) { c.queries.gate = {}; },
                 {"gradient of gate is given", "both or neither"});
  expect_refusal(legal, {kKeysBackward}, [](SplitCall& c) { c.key_gradients.k = {}; },
                 {"gradient of k has shape"});
  expect_refusal(legal, {kKeysBackward}, [](SplitCall& c) { c.key_gradients.v.heads = 1; },
                 {"gradient of v has shape (2, 1, 7, 16)", "(2, 2, 7, 16)"});
}

TEST(SplitErrors, GradientsOfTheOtherHalf) {
  const AttentionCase legal = plain_case();
  auto give = [](HeadsView<float> AttentionGradients<float>::*which) {
    return [which](SplitCall& c) {
      c.key_gradients.*which = c.query_gradients.*which = c.gradients.*which;
    };
  };
  using G = AttentionGradients<float>;
  const Facts keys_elsewhere{"is given, but keys_backward writes it", "leave it out"};
  expect_refusal(legal, {kQueriesBackward}, give(&G::k), keys_elsewhere);
  expect_refusal(legal, {kQueriesBackward}, give(&G::v), keys_elsewhere);
  const Facts queries_elsewhere{"is given, but queries_backward writes it", "leave it out"};
  for (const auto which : {&G::q, &G::local, &G::gate})
    expect_refusal(legal, {kKeysBackward}, give(which), queries_elsewhere);
}

// Room for so many floats, where something else lies.
template <typename T>
std::span<float> inside(const HeadsView<T>& view, size_t size) {
  return {const_cast<float*>(view.data) + 1, size};
}
std::span<float> inside(std::span<std::byte> scratch, size_t size) {
  return {reinterpret_cast<float*>(scratch.data()), size};
}

// With tensors that are larger than the state.
AttentionCase roomy_case() {
  AttentionCase c = plain_case();
  c.queries = 20;
  c.keys = 30;
  return c;
}

TEST(SplitErrors, SharedMemoryOfKeys) {
  const AttentionCase legal = roomy_case();
  auto refuse = [&](const Entry& entry, const SplitSpoil& spoil, const Facts& facts) {
    expect_refusal(legal, {entry}, spoil, facts);
  };
  refuse(kKeysForward, [](SplitCall& c) { c.state = inside(c.keys.k, c.state.size()); },
         {"state shares memory with k", "buffer of its own"});
  refuse(kKeysForward, [](SplitCall& c) { c.state = inside(c.keys.v, c.state.size()); },
         {"state shares memory with v"});
  refuse(kKeysForward, [](SplitCall& c) { c.state = inside(c.scratch, c.state.size()); },
         {"scratch shares memory with state"});
  refuse(kKeysBackward, [](SplitCall& c) { c.key_gradients.k.data = c.problem.k.view().data; },
         {"gradient of k shares memory with k", "tensor of its own"});
  refuse(kKeysBackward, [](SplitCall& c) { c.key_gradients.v.data = c.key_gradients.k.data; },
         {"gradient of v shares memory with gradient of k"});
  refuse(kKeysBackward,
         [](SplitCall& c) { c.gradient_of_all = inside(c.gradients.v, c.state.size()); },
         {"state_gradient shares memory with gradient of v"});
  refuse(kKeysBackward, [](SplitCall& c) { c.gradient_of_all = inside(c.scratch, c.state.size()); },
         {"scratch shares memory with state_gradient"});
}

TEST(SplitErrors, SharedMemoryOfQueries) {
  const AttentionCase legal = roomy_case();
  auto refuse = [&](const Entry& entry, const SplitSpoil& spoil, const Facts& facts) {
    expect_refusal(legal, {entry}, spoil, facts);
  };
  refuse(kQueriesForward, [](SplitCall& c) { c.out.data = c.problem.local.view().data; },
         {"out shares memory with local", "tensor of its own"});
  refuse(kQueriesForward, [](SplitCall& c) { c.out.data = c.problem.gate.view().data; },
         {"out shares memory with gate"});
  refuse(kQueriesForward, [](SplitCall& c) { c.total.sums = inside(c.out, c.state.size()); },
         {"state shares memory with out"});
  refuse(kQueriesForward, [](SplitCall& c) { c.total.sums = inside(c.scratch, c.state.size()); },
         {"scratch shares memory with state"});
  refuse(kQueriesBackward, [](SplitCall& c) { c.query_gradients.q.data = c.problem.q.view().data; },
         {"gradient of q shares memory with q"});
  refuse(kQueriesBackward,
         [](SplitCall& c) { c.query_gradients.gate.data = c.query_gradients.local.data; },
         {"gradient of gate shares memory with gradient of local"});
  refuse(kQueriesBackward, [](SplitCall& c) { c.gradient_of_own = c.total_memory; },
         {"state_gradient shares memory with state"});
  refuse(kQueriesBackward,
         [](SplitCall& c) { c.gradient_of_own = inside(c.out_gradient, c.state.size()); },
         {"state_gradient shares memory with out_gradient"});
  refuse(kQueriesBackward,
         [](SplitCall& c) { c.gradient_of_own = inside(c.scratch, c.state.size()); },
         {"scratch shares memory with state_gradient"});
}

}  // namespace
}  // namespace mala::test
