// What benches need of a GPU: a call captured once and replayed, and how fast it multiplies.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace mala::bench {

// The call as one CUDA graph, captured now: it must neither wait for the GPU nor depend on numbers
// that change. Each run replays it into the same output.
std::function<at::Tensor()> captured(const std::function<at::Tensor()>& call);

// Of square matrices large enough to keep all of the GPU busy.
double measure_gpu_gflops(at::ScalarType dtype);

// Returns when the GPU has done all that it was asked for.
void wait_for_gpu();

}  // namespace mala::bench
