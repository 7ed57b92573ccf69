// A call that is kept from forward to backward.
#include "mala/ops/saved_call.h"

namespace mala::ops {
namespace {

constexpr int64_t kNoList = -1;

// All values together: a name for each would cost more than the rest of a small call.
constexpr const char* kValues = "values";

}  // namespace

void FieldWriter::write(const std::optional<at::TensorList>& list) {
  values.emplace_back(list ? static_cast<int64_t>(list->size()) : kNoList);
  if (list) tensors.insert(tensors.end(), list->begin(), list->end());
}

void FieldWriter::write(const std::optional<std::string_view>& x) {
  values.push_back(x ? c10::IValue(std::string(*x)) : c10::IValue());
}

void FieldReader::read(std::optional<Tensor>& x) {
  const Tensor& tensor = tensors_[tensor_++];
  if (tensor.defined()) x = tensor;
}

void FieldReader::read(std::optional<at::TensorList>& list) {
  const int64_t count = next_value().toInt();
  if (count == kNoList) return;
  list = at::TensorList(tensors_).slice(tensor_, static_cast<size_t>(count));
  tensor_ += static_cast<size_t>(count);
}

void FieldReader::read(std::optional<std::string_view>& x) {
  const c10::IValue& value = next_value();
  if (!value.isNone()) x = value.toStringView();
}

void save_fields(torch::autograd::AutogradContext* context, FieldWriter writer) {
  context->save_for_backward(std::move(writer.tensors));
  c10::impl::GenericList values(c10::AnyType::get());
  values.reserve(writer.values.size());
  for (c10::IValue& value : writer.values) values.push_back(std::move(value));
  context->saved_data[kValues] = std::move(values);
}

FieldReader saved_fields(torch::autograd::AutogradContext* context) {
  const at::ArrayRef<c10::IValue> values = context->saved_data.at(kValues).toListRef();
  return {context->get_saved_variables(), values.vec()};
}

}  // namespace mala::ops
