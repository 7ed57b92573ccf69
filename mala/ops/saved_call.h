// A call that is kept from forward to backward: its tensors as variables, which autograd watches
// for changes, the rest as plain values. Both go through `fields`, in its order.
#pragma once

#include <torch/csrc/autograd/custom_function.h>

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "mala/ops/calls.h"

namespace mala::ops {

class FieldWriter {
 public:
  void write(const Tensor& x) { tensors.push_back(x); }
  void write(const std::optional<Tensor>& x) { tensors.push_back(x ? *x : Tensor()); }
  void write(const std::optional<at::TensorList>& list);
  void write(std::string_view x) { values.emplace_back(std::string(x)); }
  void write(const std::optional<std::string_view>& x);
  void write(const auto& x) { values.emplace_back(x); }

  torch::autograd::variable_list tensors;  // undefined where absent
  std::vector<c10::IValue> values;
};

// Reads what a FieldWriter wrote, and owns what the fields point to.
class FieldReader {
 public:
  FieldReader(torch::autograd::variable_list tensors, std::vector<c10::IValue> values)
      : tensors_(std::move(tensors)), values_(std::move(values)) {}

  void read(Tensor& x) { x = tensors_[tensor_++]; }
  void read(std::optional<Tensor>& x);
  void read(std::optional<at::TensorList>& list);
  void read(std::string_view& x) { x = next_value().toStringView(); }
  void read(std::optional<std::string_view>& x);
  void read(c10::SymIntArrayRef& x) { x = lists_.emplace_back(next_value().toSymIntVector()); }
  void read(c10::SymInt& x) { x = next_value().toSymInt(); }
  void read(bool& x) { x = next_value().toBool(); }
  void read(double& x) { x = next_value().toDouble(); }
  void read(std::optional<double>& x) { x = next_value().toOptional<double>(); }

 private:
  const c10::IValue& next_value() { return values_[value_++]; }

  torch::autograd::variable_list tensors_;
  std::vector<c10::IValue> values_;
  std::deque<std::vector<c10::SymInt>> lists_;
  size_t tensor_ = 0, value_ = 0;
};

template <typename Call>
FieldWriter written(const Call& call) {
  FieldWriter writer;
  std::apply([&](const auto&... x) { (writer.write(x), ...); }, Call::fields(call));
  return writer;
}

void save_fields(torch::autograd::AutogradContext* context, FieldWriter writer);
FieldReader saved_fields(torch::autograd::AutogradContext* context);

template <typename Call>
void save_call(torch::autograd::AutogradContext* context, const Call& call) {
  save_fields(context, written(call));
}

// What save_call kept. Stays where it is: the call points into it.
template <typename Call>
class SavedCall {
 public:
  explicit SavedCall(torch::autograd::AutogradContext* context) : fields_(saved_fields(context)) {
    std::apply([&](auto&... x) { (fields_.read(x), ...); }, Call::fields(call));
  }
  SavedCall(const SavedCall&) = delete;

  Call call{};

 private:
  FieldReader fields_;
};

}  // namespace mala::ops
