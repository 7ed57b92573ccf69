// The passes, compiled once for every instruction set, and the choice among them.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "mala/kernels/cpu/passes.cpp"
#include "mala/kernels/cpu/passes.h"

#include "hwy/foreach_target.h"  // re-includes this file once per target
#include "hwy/highway.h"
#include "mala/kernels/cpu/backward-inl.h"
#include "mala/kernels/cpu/forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {

template <typename T>
const Passes<T>& passes_here() {
  static constexpr Passes<T> kPasses{sum_keys<T>, apply_queries<T>, query_gradients<T>,
                                     key_gradients<T>};
  return kPasses;
}

const Passes<float>& float_passes() { return passes_here<float>(); }
const Passes<double>& double_passes() { return passes_here<double>(); }

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "mala/kernels/cpu/targets.h"

namespace mala::cpu {

HWY_EXPORT(float_passes);
HWY_EXPORT(double_passes);

int64_t compiled_targets() { return HWY_TARGETS; }

template <>
const Passes<float>& passes<float>() {
  return HWY_DISPATCH_TABLE(float_passes)[chosen_target().GetIndex()]();
}

template <>
const Passes<double>& passes<double>() {
  return HWY_DISPATCH_TABLE(double_passes)[chosen_target().GetIndex()]();
}

}  // namespace mala::cpu
#endif
