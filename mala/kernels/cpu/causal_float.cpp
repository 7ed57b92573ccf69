// The causal passes in float, compiled once for every instruction set, and the choice among them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mala/kernels/cpu/causal_float.cpp"
#include "hwy/foreach_target.h"  // re-includes this file once per target
#include "hwy/highway.h"
#include "mala/kernels/cpu/causal_forward-inl.h"
#include "mala/kernels/cpu/causal_key_gradients-inl.h"
#include "mala/kernels/cpu/causal_passes.h"
#include "mala/kernels/cpu/causal_query_gradients-inl.h"
#include "mala/kernels/cpu/causal_step-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {

const CausalPasses<float>& causal_float_passes() {
  static constexpr CausalPasses<float> kPasses{causal_sum_keys<float>, causal_forward<float>,
                                               causal_query_gradients<float>,
                                               causal_key_gradients<float>, causal_step<float>};
  return kPasses;
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "mala/kernels/cpu/targets.h"

namespace mala::cpu {

HWY_EXPORT(causal_float_passes);

template <>
const CausalPasses<float>& causal_passes<float>() {
  return HWY_DISPATCH_TABLE(causal_float_passes)[chosen_target().GetIndex()]();
}

}  // namespace mala::cpu
#endif
