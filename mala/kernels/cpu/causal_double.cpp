// The causal passes in double, compiled once for every instruction set, and the choice among them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mala/kernels/cpu/causal_double.cpp"
#include "hwy/foreach_target.h"  // re-includes this file once per target
#include "hwy/highway.h"
#include "mala/kernels/cpu/causal_forward-inl.h"
#include "mala/kernels/cpu/causal_key_gradients-inl.h"
#include "mala/kernels/cpu/causal_passes.h"
#include "mala/kernels/cpu/causal_query_gradients-inl.h"
#include "mala/kernels/cpu/causal_step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {

const CausalPasses<double>& causal_double_passes() {
  static constexpr CausalPasses<double> kPasses{causal_sum_keys<double>, causal_forward<double>,
                                                causal_query_gradients<double>,
                                                causal_key_gradients<double>, causal_step<double>};
  return kPasses;
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "mala/kernels/cpu/targets.h"

namespace mala::cpu {

HWY_EXPORT(causal_double_passes);

template <>
const CausalPasses<double>& causal_passes<double>() {
  return HWY_DISPATCH_TABLE(causal_double_passes)[chosen_target().GetIndex()]();
}

}  // namespace mala::cpu
#endif
