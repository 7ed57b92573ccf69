// The definition: against a full matrix of weights, against finite differences, and its causal
// form against its bidirectional form on every prefix; with groups of heads and lengths, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "mala/kernels/reference/attention.h"
#include "tests/support/attention_problem.h"
#include "tests/support/compare.h"
#include "tests/support/finite_differences.h"
#include "tests/support/sequences.h"
#include "tests/support/weight_matrix.h"

namespace mala::test {
namespace {

// Double has 16 digits, sums here are short, and s up to 60 takes two digits from their difference.
constexpr double kEqual = 1e-12;

constexpr std::array kForms{Form::kBidirectional, Form::kCausal};

// A small case with everything in it.
AttentionCase full_case(Form form) {
  AttentionCase c{.batch = 2, .heads = 2, .queries = 6, .dim = 8, .value_dim = 16};
  c.keys = form == Form::kCausal ? c.queries : 9;
  c.set_tail(3);
  return c;
}

// The same with groups of heads, and with key counts (NaN beyond them) or packed sequences.
std::vector<AttentionCase> cases_with_lengths(Form form) {
  AttentionCase grouped = full_case(form);
  grouped.batch = 1;
  grouped.heads = 6;
  grouped.group = 3;
  AttentionCase packed = grouped;
  packed.pack({3, 1, 5}, form == Form::kCausal ? std::vector<int64_t>{3, 1, 5}
                                               : std::vector<int64_t>{1, 6, 4});
  packed.lengths.q_widths = {2, 5, 4};
  packed.lengths.k_widths = {1, 2, 3};
  AttentionCase counted = full_case(form);
  counted.batch = 3;
  counted.group = 2;
  counted.lengths.key_counts = {5, 1, counted.keys};
  counted.lengths.q_widths = {2, 5, 4};
  return {grouped, packed, counted};
}

// Calls visit for every rule, norm, feature, RoPE and key_mean.
void each_option(AttentionCase c, const std::function<void(const AttentionCase&)>& visit) {
  for (const AttentionOptions& options : every_option(3, 1)) {
    c.options = options;
    ++c.seed;
    visit(c);
  }
}

void expect_the_weight_matrix(const AttentionCase& c, Form form) {
  const AttentionProblem<double> problem(well_conditioned(c));
  const AttentionResults results = run_reference(problem, form, Pass::kForward);
  EXPECT_LT(relative_error(results.out, weight_matrix_forward(problem, form)), kEqual)
      << describe(problem.about);
}

TEST(Reference, EqualsTheWeightMatrix) {
  for (const Form form : kForms)
    each_option(full_case(form),
                [&](const AttentionCase& c) { expect_the_weight_matrix(c, form); });
}

TEST(Reference, EqualsTheWeightMatrixWithLengths) {
  for (const Form form : kForms)
    for (const AttentionCase& with_lengths : cases_with_lengths(form))
      each_option(with_lengths, [&](const AttentionCase& c) { expect_the_weight_matrix(c, form); });
}

TEST(Reference, EqualsTheWeightMatrixForEveryScaleAndEps) {
  for (const Form form : kForms) {
    for (const double scale : {1.0, 0.05, 3.0}) {
      for (const double eps : {0.0, 1e-6, 0.5}) {
        AttentionCase c = full_case(form);
        c.options.scale = scale;
        c.options.eps = eps;
        const AttentionProblem<double> problem(c);
        const AttentionResults results = run_reference(problem, form, Pass::kForward);
        EXPECT_LT(relative_error(results.out, weight_matrix_forward(problem, form)), kEqual);
      }
    }
  }
}

// sum(out * g), of which run_reference gives the gradients.
Loss loss_of(const AttentionProblem<double>& problem, Form form) {
  return [&problem, form] {
    return dot(run_reference(problem, form, Pass::kForward).out, problem.out_gradient.values());
  };
}

// The inputs of a problem with the gradients that the definition gives for them.
std::vector<Variable> variables(AttentionProblem<double>& p, Form form) {
  avoid_kinks(p.q);
  avoid_kinks(p.k);
  const AttentionResults r = run_reference(p, form);
  std::vector<Variable> all{tensor_variable("q", p.q, r.q), tensor_variable("k", p.k, r.k),
                            tensor_variable("v", p.v, r.v)};
  if (p.local.exists()) all.push_back(tensor_variable("local", p.local, r.local));
  if (p.gate.exists()) all.push_back(tensor_variable("gate", p.gate, r.gate));
  return all;
}

std::string describe(const AttentionProblem<double>& problem, Form form) {
  return (form == Form::kCausal ? "causal, " : "") + describe(problem.about);
}

void expect_gradients(AttentionProblem<double>& problem, Form form, Random& random) {
  for (const Variable& x : variables(problem, form))
    expect_slope(loss_of(problem, form), x, random, describe(problem, form));
}

TEST(Reference, GradientsAreFiniteDifferences) {
  Random random(11);
  for (const Form form : kForms) {
    AttentionCase small = full_case(form);
    small.batch = 1;
    each_option(small, [&](AttentionCase c) {
      c.set_tail(static_cast<int>(c.seed % 4));
      AttentionProblem<double> problem(well_conditioned(c));
      expect_gradients(problem, form, random);
    });
  }
}

// Along a direction that moves keys beyond the count, too: they have no slope.
TEST(Reference, GradientsWithLengthsAreFiniteDifferences) {
  Random random(13);
  for (const Form form : kForms) {
    for (const AttentionCase& with_lengths : cases_with_lengths(form)) {
      each_option(with_lengths, [&](AttentionCase c) {
        c.set_tail(static_cast<int>(c.seed % 4));
        AttentionProblem<double> problem(well_conditioned(c));
        expect_gradients(problem, form, random);
      });
    }
  }
}

// `printed` with RoPE and an eps of usual size, turned so little that r stays far from zero.
TEST(Reference, GradientsOfPrintedWithSmallEps) {
  Random random(12);
  for (const Form form : kForms) {
    for (const Rule rule : kRules) {
      AttentionCase c = full_case(form);
      c.table_angle = 0.3;
      c.options = options_of(rule, Norm::kPrinted);
      c.options.q_rope.kind = c.options.k_rope.kind = Rope::Kind::kTable;
      AttentionProblem<double> problem(c);
      expect_gradients(problem, form, random);
    }
  }
}

void expect_every_element(AttentionProblem<double>& problem, Form form) {
  for (const Variable& x : variables(problem, form))
    expect_every_slope(loss_of(problem, form), x, describe(problem, form));
}

// Element by element for each rule and norm, so that a wrong one is named.
TEST(Reference, EveryElementOfTheGradientsIsAFiniteDifference) {
  for (const Form form : kForms) {
    for (const Rule rule : kRules) {
      for (const Norm norm : kNorms) {
        AttentionCase c{.queries = 3, .keys = form == Form::kCausal ? 3 : 4};
        c.set_tail(3);
        c.options = options_of(rule, norm);
        c.options.q_rope = Rope::line(2);
        c.options.k_rope = Rope::line();
        AttentionProblem<double> problem(well_conditioned(c));
        expect_every_element(problem, form);
      }
    }
  }
}

// The same for one rule, with lengths: keys that two heads share, that count, and that do not.
// Fewer heads than elsewhere, because every element costs four runs.
TEST(Reference, EveryElementOfTheGradientsWithLengthsIsAFiniteDifference) {
  for (const Form form : kForms) {
    for (AttentionCase c : cases_with_lengths(form)) {
      c.heads = c.group = 2;
      c.options.norm = Norm::kBalanced;
      c.options.q_rope = Rope::line(2);
      c.options.k_rope = Rope::line();
      AttentionProblem<double> problem(c);
      expect_every_element(problem, form);
    }
  }
}

// A packed sequence, or an entry of which some keys count, is the same call for it alone.
TEST(Reference, ASequenceAloneIsThatSequenceAmongOthers) {
  for (AttentionCase c : cases_with_lengths(Form::kBidirectional)) {
    c.options.q_rope = c.options.k_rope = Rope::grid(3, 1);
    const AttentionProblem<double> all(c);
    const AttentionResults together = run_reference(all);
    for (int64_t s = 0; s < c.sequences(); ++s) {
      AttentionProblem<double> alone(sequence_case(c, s));
      take_sequence(all, s, alone);
      EXPECT_TRUE(same_bits(run_reference(alone), sequence_results(together, c, s)))
          << "sequence " << s << " of " << describe(c);
    }
  }
}

// Causal out at t is the last row of the bidirectional out on the first t tokens.
TEST(Reference, CausalIsBidirectionalOnEveryPrefix) {
  AttentionCase whole = full_case(Form::kCausal);
  whole.batch = whole.heads = 1;
  each_option(whole, [&](const AttentionCase& c) {
    const AttentionProblem<double> all(well_conditioned(c));
    const std::vector<double> causal = run_reference(all, Form::kCausal, Pass::kForward).out;
    for (int64_t t = 1; t <= c.queries; ++t) {
      Tensor<double> out({1, 1, t, c.value_dim}, Layout::kDense);
      AttentionInputs<double> prefix = all.inputs();
      for (HeadsView<const double>* x :
           {&prefix.q, &prefix.k, &prefix.v, &prefix.local, &prefix.gate})
        x->tokens = t;
      reference::attention_forward(prefix, all.options, out.view());
      for (int64_t e = 0; e < c.value_dim; ++e) {
        EXPECT_NEAR(out.view().head(0, 0).at(t - 1, e), causal[(t - 1) * c.value_dim + e],
                    kEqual * std::max(1.0, max_size(causal)))
            << "t " << t << " " << describe(all.about);
      }
    }
  });
}

// Strides change nothing: the same numbers in every layout give the same bits.
TEST(Reference, TakesAnyStrides) {
  for (const Layout layout : output_layouts()) {
    AttentionCase c = full_case(Form::kBidirectional);
    const AttentionResults expected = run_reference(AttentionProblem<double>(c));
    c.set_input_layouts(layout);
    const AttentionProblem<double> p(c);
    auto like = [&](const Tensor<double>& x) {
      return Tensor<double>(x.shape(), layout, Role::kOutput);
    };
    Tensor<double> out = like(p.out_gradient), dq = like(p.q), dk = like(p.k), dv = like(p.v),
                   dlocal = like(p.local), dgate = like(p.gate);
    reference::attention_forward(p.inputs(), p.options, out.view());
    reference::attention_backward(p.inputs(), p.options, p.out_gradient.view(),
                                  {dq.view(), dk.view(), dv.view(), dlocal.view(), dgate.view()});
    const AttentionResults results{out.values(), dq.values(),     dk.values(),
                                   dv.values(),  dlocal.values(), dgate.values()};
    EXPECT_TRUE(same_bits(results, expected)) << name(layout);
    for (const Tensor<double>* x : {&out, &dq, &dk, &dv, &dlocal, &dgate})
      EXPECT_TRUE(x->guards_intact()) << name(layout);
  }
}

}  // namespace
}  // namespace mala::test
