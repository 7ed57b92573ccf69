// Autocast and the loss scale, as torch's own trainers have them.
#include "mala/train/precision.h"

#include <ATen/autocast_mode.h>

namespace mala::train {
namespace {

using torch::Tensor;

torch::ScalarType type_named(const std::string& precision) {
  if (precision == "bfloat16") return torch::kBFloat16;
  return precision == "float16" ? torch::kFloat16 : torch::kFloat32;
}

}  // namespace

Autocast::Autocast(torch::Device device, const std::string& precision)
    : device_(device.type()),
      was_enabled_(at::autocast::is_autocast_enabled(device_)),
      type_before_(at::autocast::get_autocast_dtype(device_)) {
  const torch::ScalarType type = type_named(precision);
  if (type != torch::kFloat32) at::autocast::set_autocast_dtype(device_, type);
  at::autocast::set_autocast_enabled(device_, type != torch::kFloat32);
  at::autocast::increment_nesting();
}

Autocast::~Autocast() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  at::autocast::set_autocast_enabled(device_, was_enabled_);
  at::autocast::set_autocast_dtype(device_, type_before_);
}

LossScale::LossScale(const std::string& precision, torch::Device device)
    : is_on_(precision == "float16"),
      scale_(torch::full({}, is_on_ ? 65536.0 : 1.0, torch::dtype(torch::kFloat32).device(device))),
      growth_(torch::zeros({}, torch::dtype(torch::kInt32).device(device))) {}

Tensor LossScale::unscale(const std::vector<Tensor>& gradients) {
  const torch::NoGradGuard no_gradients;
  Tensor is_broken = torch::zeros({}, scale_.options());
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, is_broken, scale_.reciprocal());
  return is_broken;
}

void LossScale::update(const Tensor& is_broken) {
  if (!is_on_) return;
  const torch::NoGradGuard no_gradients;
  at::_amp_update_scale_(scale_, growth_, is_broken, /*growth=*/2.0, /*backoff=*/0.5,
                         /*steps between=*/2000);
}

}  // namespace mala::train
