// What tests of the causal form on a GPU share: usual cases, the devices they go round, and how far
// results are off.
#pragma once

#include <cuda_runtime_api.h>

#include <cmath>
#include <utility>
#include <vector>

#include "mala/kernels/cuda/check.h"
#include "mala/kernels/cuda/devices.h"
#include "tests/kernels/cuda_attention_run.h"
#include "tests/kernels/cuda_causal_run.h"

namespace mala::test {

// Cases go round all devices. Where they are emulated, these differ in the number of parts that a
// head falls into, and in how many tiles a part has.
class GpuCausalTest : public GpuTest {
 protected:
  void TearDown() override { cudaSetDevice(0); }

  void use_next_device() {
    const int count = static_cast<int>(gpu::devices().size());
    MALA_CUDA_CHECK(cudaSetDevice(next_++ % count));
  }
  void check(const CausalCase& c) {
    use_next_device();
    check_on_gpu(c);
  }

 private:
  int next_ = 0;
};

// Tiles have 64 tokens. Heads of 64 are those that warpgroups work on, where there is a rotation
// along a line or none.
inline CausalCase usual_case(int64_t tokens) {
  CausalCase c = CausalCase::of(tokens, 64, 64);
  c.set_rope(Rope::line());
  c.after = c.before_gradient = false;
  return c;
}

// A text and the emulated device that it is for, on which its heads are clusters of one block, two,
// four and eight, and several parts: tests of parts say so. Teams take tiles more than once.
inline constexpr std::pair<int, int> kTexts[] = {
    {1, 480}, {2, 900}, {0, 1600}, {0, 2500}, {0, 3100}};

inline double relative_rms(const std::vector<double>& actual, const std::vector<double>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

}  // namespace mala::test
