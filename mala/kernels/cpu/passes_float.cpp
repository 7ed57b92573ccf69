// The passes in float, compiled once for every instruction set, and the choice among them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mala/kernels/cpu/passes_float.cpp"
#include "hwy/foreach_target.h"  // re-includes this file once per target
#include "hwy/highway.h"
#include "mala/kernels/cpu/backward-inl.h"
#include "mala/kernels/cpu/forward-inl.h"
#include "mala/kernels/cpu/passes.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {

const Passes<float>& float_passes() {
  static constexpr Passes<float> kPasses{sum_keys<float>, apply_queries<float>,
                                         query_gradients<float>, key_gradients<float>};
  return kPasses;
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "mala/kernels/cpu/targets.h"

namespace mala::cpu {

HWY_EXPORT(float_passes);

template <>
const Passes<float>& passes<float>() {
  return HWY_DISPATCH_TABLE(float_passes)[chosen_target().GetIndex()]();
}

}  // namespace mala::cpu
#endif
