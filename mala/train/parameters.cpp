// Which parameter is decayed, how fast it learns, and whether it learns at all.
#include "mala/train/parameters.h"

#include <algorithm>
#include <cmath>

#include "mala/core/nearest.h"
#include "mala/core/source.h"

namespace mala::train {
namespace {

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

bool is_decayed(const std::string& name, const torch::Tensor& parameter,
                const std::vector<std::string>& exceptions) {
  const auto is = [&](const std::string& exception) {
    return name == exception || last_part(name) == exception;
  };
  return parameter.dim() > 1 && last_part(name) != "bias" &&
         std::none_of(exceptions.begin(), exceptions.end(), is);
}

double lr_factor(const tasks::TrainingTask& task, const std::string& name, double layer_decay) {
  if (layer_decay == 1) return 1;
  return std::pow(layer_decay, static_cast<double>(task.depth() - 1 - task.depth_of(name)));
}

bool lies_in(const std::string& name, const std::string& module) {
  return name == module || name.starts_with(module + ".");
}

}  // namespace

std::vector<ParameterGroup> group_parameters(const tasks::TrainingTask& task,
                                             torch::nn::Module& model,
                                             const OptimizerConfig& config) {
  std::vector<ParameterGroup> groups;
  for (const auto& item : model.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    const bool decayed = is_decayed(item.key(), item.value(), config.no_decay);
    const double decay = decayed ? config.weight_decay : 0;
    const double factor = lr_factor(task, item.key(), config.layer_decay);
    const auto same = [&](const ParameterGroup& group) {
      return group.weight_decay == decay && group.lr_factor == factor;
    };
    auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end()) {
      groups.push_back({.weight_decay = decay, .lr_factor = factor});
      found = groups.end() - 1;
    }
    found->names.push_back(item.key());
    found->parameters.push_back(item.value());
  }
  check(!groups.empty(), "train", "every parameter is frozen; take something out of",
        " optimizer.freeze");
  return groups;
}

void freeze(torch::nn::Module& model, const std::vector<std::string>& names) {
  std::vector<std::string> known;
  for (const auto& item : model.named_modules("", false)) known.push_back(item.key());
  for (const std::string& name : names) {
    bool found = false;
    for (const auto& item : model.named_parameters()) {
      if (!lies_in(item.key(), name)) continue;
      item.value().set_requires_grad(false);
      found = true;
    }
    check(found, "train", "optimizer.freeze names ", in_quotes(name),
          ", which is no part of the model with parameters", did_you_mean(name, known));
  }
}

void set_training_mode(torch::nn::Module& model, const std::vector<std::string>& frozen) {
  model.train();
  for (const auto& item : model.named_modules("", false)) {
    for (const std::string& name : frozen) {
      if (lies_in(item.key(), name)) item.value()->eval();
    }
  }
}

}  // namespace mala::train
