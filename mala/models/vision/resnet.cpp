// ResNet with shortcuts that skip pixels and pad channels with zeros.
#include "mala/models/vision/resnet.h"

#include <torch/nn/functional/padding.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

namespace mala::models {
namespace {

torch::nn::Conv2d conv3x3(int64_t from, int64_t to, int64_t stride) {
  return torch::nn::Conv2d(
      torch::nn::Conv2dOptions(from, to, 3).stride(stride).padding(1).bias(false));
}

}  // namespace

ResnetBlockImpl::ResnetBlockImpl(int64_t from, int64_t to, int64_t stride)
    : conv1_(conv3x3(from, to, stride)),
      conv2_(conv3x3(to, to, 1)),
      norm1_(to),
      norm2_(to),
      stride_(stride),
      added_(to - from) {
  register_module("conv1", conv1_);
  register_module("bn1", norm1_);
  register_module("conv2", conv2_);
  register_module("bn2", norm2_);
}

Tensor ResnetBlockImpl::forward(const Tensor& image) {
  const Tensor hidden = torch::relu(norm1_->forward(conv1_->forward(image)));
  Tensor shortcut = image;
  if (stride_ > 1) shortcut = shortcut.slice(2, 0, {}, stride_).slice(3, 0, {}, stride_);
  if (added_ > 0) {
    shortcut = torch::constant_pad_nd(shortcut, {0, 0, 0, 0, added_ / 2, added_ - added_ / 2});
  }
  return torch::relu(norm2_->forward(conv2_->forward(hidden)) + shortcut);
}

ResnetImpl::ResnetImpl(const ResnetConfig& config)
    : conv_(conv3x3(3, config.width, 1)),
      norm_(config.width),
      head_(4 * config.width, config.classes) {
  register_module("conv1", conv_);
  register_module("bn1", norm_);
  torch::nn::ModuleList list;
  int64_t from = config.width;
  for (int64_t i = 0; i < 3 * config.blocks; ++i) {
    const int64_t to = config.width << (i / config.blocks);
    blocks_.emplace_back(from, to, to > from ? 2 : 1);
    list->push_back(blocks_.back());
    from = to;
  }
  register_module("blocks", list);
  register_module("head", head_);
  for (const auto& module : modules(/*include_self=*/false)) {
    if (auto* conv = module->as<torch::nn::Conv2dImpl>()) {
      torch::nn::init::kaiming_normal_(conv->weight, 0, torch::kFanOut, torch::kReLU);
    }
  }
}

Tensor ResnetImpl::forward(const Tensor& images) {
  Tensor x = images.contiguous(torch::MemoryFormat::ChannelsLast);
  x = torch::relu(norm_->forward(conv_->forward(x)));
  for (ResnetBlock& block : blocks_) x = block->forward(x);
  return head_->forward(x.mean({2, 3}));
}

}  // namespace mala::models
