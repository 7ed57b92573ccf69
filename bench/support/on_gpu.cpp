// Graphs by torch, which keeps the memory that they write to.
#include "bench/support/on_gpu.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

namespace mala::bench {

std::function<at::Tensor()> captured(const std::function<at::Tensor()>& call) {
  // Capturing is not allowed on the stream that everybody uses.
  const c10::cuda::CUDAStreamGuard own_stream(c10::cuda::getStreamFromPool());
  constexpr int kWarmUps = 3;  // libraries choose their algorithms
  for (int i = 0; i < kWarmUps; ++i) call();
  wait_for_gpu();
  auto graph = std::make_shared<at::cuda::CUDAGraph>();
  graph->capture_begin();
  const at::Tensor output = call();
  graph->capture_end();
  wait_for_gpu();
  return [call, graph, output] {  // the call keeps what the graph reads
    graph->replay();
    return output;
  };
}

double measure_gpu_gflops(at::ScalarType dtype) {
  constexpr int64_t kSize = 8192;
  constexpr int kRuns = 7;
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(dtype);
  const at::Tensor a = at::randn({kSize, kSize}, options), b = at::randn({kSize, kSize}, options);
  std::vector<double> seconds;
  for (int i = 0; i < kRuns; ++i) {
    wait_for_gpu();
    const auto start = std::chrono::steady_clock::now();
    at::matmul(a, b);
    wait_for_gpu();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + kRuns / 2, seconds.end());
  return 2e-9 * kSize * kSize * kSize / seconds[kRuns / 2];
}

void wait_for_gpu() { c10::cuda::device_synchronize(); }

}  // namespace mala::bench
