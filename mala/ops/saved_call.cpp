// A call that is kept from forward to backward.
#include "mala/ops/saved_call.h"

namespace mala::ops {
namespace {

constexpr int64_t kNoList = -1;

std::string key(size_t i) { return std::to_string(i); }

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

void save_fields(torch::autograd::AutogradContext* context, const FieldWriter& writer) {
  context->save_for_backward(writer.tensors);
  for (size_t i = 0; i < writer.values.size(); ++i) {
    context->saved_data[key(i)] = writer.values[i];
  }
}

FieldReader saved_fields(torch::autograd::AutogradContext* context) {
  std::vector<c10::IValue> values;
  for (size_t i = 0; i < context->saved_data.size(); ++i) {
    values.push_back(context->saved_data.at(key(i)));
  }
  return {context->get_saved_variables(), std::move(values)};
}

}  // namespace mala::ops
