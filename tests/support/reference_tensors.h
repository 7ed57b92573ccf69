// The tensors of a problem as the definition takes them: in double, in the simplest layout.
#pragma once

#include "tests/support/attention_problem.h"

namespace mala::test {

class ReferenceTensors {
 public:
  template <typename T>
  explicit ReferenceTensors(const AttentionProblem<T>& p)
      : lengths_(p.about.lengths.view()),
        q_(as_doubles(p.q)),
        k_(as_doubles(p.k)),
        v_(as_doubles(p.v)),
        local_(as_doubles(p.local)),
        gate_(as_doubles(p.gate)),
        out_gradient_(as_doubles(p.out_gradient)),
        out_(p.out_shape(), Layout::kDense) {}

  AttentionInputs<double> inputs() const {
    return {q_.view(), k_.view(), v_.view(), local_.view(), gate_.view(), lengths_};
  }
  HeadsView<const double> out_gradient() const { return out_gradient_.view(); }

  HeadsView<double> out() { return out_.view(); }
  AttentionGradients<double> gradients() {
    dq_ = q_, dk_ = k_, dv_ = v_, dlocal_ = local_, dgate_ = gate_;
    return {dq_.view(), dk_.view(), dv_.view(), dlocal_.view(), dgate_.view()};
  }

  // What has been written there.
  AttentionResults results() const {
    return {out_.values(), dq_.values(),     dk_.values(),
            dv_.values(),  dlocal_.values(), dgate_.values()};
  }

 private:
  template <typename T>
  static Tensor<double> as_doubles(const Tensor<T>& x) {
    if (!x.exists()) return {};
    Tensor<double> copy(x.shape(), Layout::kDense);
    copy.set_values(x.values());
    return copy;
  }

  Lengths lengths_;
  Tensor<double> q_, k_, v_, local_, gate_, out_gradient_;
  Tensor<double> out_, dq_, dk_, dv_, dlocal_, dgate_;  // gradients exist where they are wanted
};

}  // namespace mala::test
