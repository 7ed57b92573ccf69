// The passes in double, compiled once for every instruction set, and the choice among them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mala/kernels/cpu/passes_double.cpp"
#include "hwy/foreach_target.h"  // re-includes this file once per target
#include "hwy/highway.h"
#include "mala/kernels/cpu/backward-inl.h"
#include "mala/kernels/cpu/forward-inl.h"
#include "mala/kernels/cpu/passes.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {

const Passes<double>& double_passes() {
  static constexpr Passes<double> kPasses{sum_keys<double>, apply_queries<double>,
                                          query_gradients<double>, key_gradients<double>};
  return kPasses;
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "mala/kernels/cpu/targets.h"

namespace mala::cpu {

HWY_EXPORT(double_passes);

template <>
const Passes<double>& passes<double>() {
  return HWY_DISPATCH_TABLE(double_passes)[chosen_target().GetIndex()]();
}

}  // namespace mala::cpu
#endif
