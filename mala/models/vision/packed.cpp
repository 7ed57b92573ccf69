// torch registers oneDNN's fused layers for its compiler, by name and without a C++ header.
#include "mala/models/vision/packed.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <vector>

namespace mala::models {
namespace {

using Stack = torch::jit::Stack;

constexpr const char* kExact = "none";  // GELU by the error function, not by tanh

// Nothing where this torch was built without it.
std::optional<c10::OperatorHandle> find(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchema({name, overload});
}

Tensor call(const std::optional<c10::OperatorHandle>& op, Stack stack) {
  op->callBoxed(&stack);
  return stack.front().toTensor();
}

struct Operators {
  using Handle = std::optional<c10::OperatorHandle>;
  Handle pack_linear = find("mkldnn::_reorder_linear_weight");
  Handle linear = find("mkldnn::_linear_pointwise");
  Handle linear_add = find("mkldnn::_linear_pointwise", "binary");
  Handle pack_conv = find("mkldnn::_reorder_convolution_weight");
  Handle conv = find("mkldnn::_convolution_pointwise");
  Handle conv_add = find("mkldnn::_convolution_pointwise", "binary");
  Handle has_bfloat16 = find("mkldnn::_is_mkldnn_bf16_supported");

  bool are_there() const {
    return pack_linear && linear && linear_add && pack_conv && conv && conv_add && has_bfloat16;
  }
};

const Operators& operators() {
  static const Operators found;
  return found;
}

bool multiplies_bfloat16() {
  Stack stack;
  operators().has_bfloat16->callBoxed(&stack);
  return stack.front().toBool();
}

using Scalars = c10::List<std::optional<at::Scalar>>;

// Without a size oneDNN lays weights out for a tiny image, and anew in every call with another.
std::vector<int64_t> likely_input(const Tensor& weight, const ConvShape& shape) {
  constexpr int64_t kSide = 56;
  return {1, weight.size(1) * shape.groups, kSide, kSide};
}

std::vector<int64_t> both(int64_t size) { return {size, size}; }

}  // namespace

bool can_pack(const Tensor& weight) {
  if (!weight.is_cpu() || !operators().are_there()) return false;
  if (weight.scalar_type() == torch::kBFloat16) return multiplies_bfloat16();
  return weight.scalar_type() == torch::kFloat32;
}

PackedLinear::PackedLinear(const Tensor& weight)
    : weight_(call(operators().pack_linear, {weight.detach().contiguous(), c10::IValue()})) {}

Tensor PackedLinear::apply(const Tensor& x, const Tensor& bias) const {
  return call(operators().linear, {x, weight_, bias, "none", Scalars(), ""});
}

Tensor PackedLinear::apply_gelu(const Tensor& x, const Tensor& bias) const {
  return call(operators().linear, {x, weight_, bias, "gelu", Scalars(), kExact});
}

Tensor PackedLinear::apply_add(const Tensor& x, const Tensor& bias, const Tensor& sum) const {
  return call(operators().linear_add, {x, sum, weight_, bias, "add"});
}

PackedConv::PackedConv(const Tensor& weight, const ConvShape& shape)
    : weight_(call(
          operators().pack_conv,
          {weight.detach().contiguous(torch::MemoryFormat::ChannelsLast), both(shape.padding()),
           both(shape.stride), both(1), shape.groups, likely_input(weight, shape)})),
      shape_(shape) {}

Tensor PackedConv::apply_with(const char* activation, const Tensor& image,
                              const Tensor& bias) const {
  return call(operators().conv, {image, weight_, bias, both(shape_.padding()), both(shape_.stride),
                                 both(1), shape_.groups, activation, Scalars(), kExact});
}

Tensor PackedConv::apply(const Tensor& image, const Tensor& bias) const {
  return apply_with("none", image, bias);
}

Tensor PackedConv::apply_gelu(const Tensor& image, const Tensor& bias) const {
  return apply_with("gelu", image, bias);
}

Tensor PackedConv::apply_add(const Tensor& image, const Tensor& bias, const Tensor& sum) const {
  return call(operators().conv_add,
              {image, sum, weight_, bias, both(shape_.padding()), both(shape_.stride), both(1),
               shape_.groups, "add", c10::IValue(), c10::IValue(), Scalars(), c10::IValue()});
}

}  // namespace mala::models
