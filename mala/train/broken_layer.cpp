// torch reports each operation with its inputs and outputs; parameters among them tell the layer.
#include "mala/train/broken_layer.h"

#include <ATen/record_function.h>

#include <unordered_map>

#include "mala/core/error.h"

namespace mala::train {
namespace {

using torch::Tensor;

struct Search {
  std::unordered_map<const void*, std::string> parameters;  // by what identifies a tensor
  std::string layer = "the input";                          // of the parameter that came last
  std::string found;
};

// The callbacks of torch are plain functions; this is how they know the search of their thread.
thread_local Search* current = nullptr;

struct Inputs : at::ObserverContext {
  bool are_finite = true;
};

std::string module_of(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == parameter.npos ? parameter : parameter.substr(0, dot);
}

bool is_finite(const Tensor& tensor) {
  if (!tensor.defined() || tensor.numel() == 0 || tensor.is_sparse() || tensor.is_meta())
    return true;
  if (!tensor.is_floating_point() && !tensor.is_complex()) return true;
  return torch::isfinite(tensor.detach()).all().item<bool>();
}

template <typename Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const Tensor& tensor : value.toTensorVector()) visit(tensor);
  }
}

// Memory that nobody has written yet may hold anything.
bool is_unwritten(const at::RecordFunction& call) {
  const std::string name = call.name();
  return name.find("empty") != name.npos || name.find("resize") != name.npos;
}

std::unique_ptr<at::ObserverContext> before(const at::RecordFunction& call) {
  if (!current || !current->found.empty()) return nullptr;
  at::RecordFunctionGuard no_recording(/*is_enabled=*/false);
  auto inputs = std::make_unique<Inputs>();
  for (const c10::IValue& value : call.inputs()) {
    for_each_tensor(value, [&](const Tensor& tensor) {
      const auto known = current->parameters.find(tensor.unsafeGetTensorImpl());
      if (known != current->parameters.end()) current->layer = known->second;
      inputs->are_finite = inputs->are_finite && is_finite(tensor);
    });
  }
  return inputs;
}

void after(const at::RecordFunction& call, at::ObserverContext* context) {
  const auto* inputs = static_cast<const Inputs*>(context);
  if (!current || !inputs || !current->found.empty() || is_unwritten(call)) return;
  if (!inputs->are_finite) return;
  at::RecordFunctionGuard no_recording(/*is_enabled=*/false);
  bool are_finite = true;
  for (const c10::IValue& value : call.outputs()) {
    for_each_tensor(value, [&](const Tensor& tensor) { are_finite &= is_finite(tensor); });
  }
  if (!are_finite) current->found = str(call.name(), " in '", current->layer, "'");
}

class Watch {
 public:
  explicit Watch(Search& search)
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(before, after)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {
    current = &search;
  }
  ~Watch() {
    current = nullptr;
    at::removeCallback(handle_);
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  at::CallbackHandle handle_;
};

std::string find_broken_weight(const torch::nn::Module& model) {
  for (const auto& item : model.named_parameters()) {
    if (!is_finite(item.value())) return str("the weights '", item.key(), "'");
  }
  return {};
}

std::string find_broken_statistics(const torch::nn::Module& model) {
  for (const auto& item : model.named_buffers()) {
    if (!is_finite(item.value())) return str("the statistics '", item.key(), "'");
  }
  return {};
}

// Gradients come from the end of the model, so the last that is broken was the first.
std::string find_broken_gradient(const torch::nn::Module& model) {
  std::string found;
  for (const auto& item : model.named_parameters()) {
    if (!is_finite(item.value().grad())) found = str("the gradient of '", item.key(), "'");
  }
  return found;
}

}  // namespace

std::string find_broken_layer(torch::nn::Module& model, const std::function<Tensor()>& loss) {
  if (const std::string weight = find_broken_weight(model); !weight.empty()) return weight;
  Search search;
  for (const auto& item : model.named_parameters()) {
    search.parameters[item.value().unsafeGetTensorImpl()] = module_of(item.key());
  }
  for (auto& parameter : model.parameters()) parameter.mutable_grad().reset();
  Tensor value;
  {
    const Watch watch(search);
    value = loss();
  }
  if (!search.found.empty()) return search.found;
  value.backward();
  if (const std::string gradient = find_broken_gradient(model); !gradient.empty()) return gradient;
  // Last, for the step that went wrong has spoilt those of every batch norm behind it.
  return find_broken_statistics(model);
}

}  // namespace mala::train
