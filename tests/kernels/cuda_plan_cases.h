// Devices and calls that plans are made for, without a GPU.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>

#include "mala/core/error.h"
#include "mala/kernels/cuda/plan.h"

namespace mala::gpu {

// As an H200 says of itself.
inline DeviceFacts some_device() {
  DeviceFacts device;
  device.multiprocessors = 132;
  device.has_wgmma = device.runs_together = true;
  const int blocks[] = {132, 132, 120, 120};
  std::copy(std::begin(blocks), std::end(blocks), device.cluster_blocks);
  return device;
}

// Of so few multiprocessors that any of them may be a cluster.
inline DeviceFacts small_device(int multiprocessors) {
  DeviceFacts device = some_device();
  device.multiprocessors = multiprocessors;
  for (int i = 0; i < DeviceFacts::kClusters; ++i) {
    device.cluster_blocks[i] = multiprocessors >> i << i;
  }
  return device;
}

// Tensors that nobody looks into, of rows that are fit for vectors.
inline AttentionInputs<BFloat16> some_inputs(int64_t batch, int64_t tokens, int64_t dim) {
  alignas(16) static BFloat16 nothing[1];
  const HeadsView<BFloat16> view = dense_heads(nothing, batch, int64_t{1}, tokens, dim);
  return {view, view, view, {}, {}};
}

// What a plan says when it is refused.
inline std::string refusal_of(const AttentionInputs<BFloat16>& inputs, const Form& form) {
  try {
    const Plan<BFloat16> plan(inputs, {}, Direction::kForward, some_device(), {}, form);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

}  // namespace mala::gpu
