// The operator run on the GPU on a test's case, between guard words and with poisoned memory.
#pragma once

#include <gtest/gtest.h>

#include "mala/kernels/cuda/devices.h"
#include "tests/kernels/cuda_memory.h"
#include "tests/support/attention_problem.h"

namespace mala::test {

// Where there is no device a test says why it did not run.
class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (gpu::devices().empty()) GTEST_SKIP() << gpu::why_no_device();
  }
};

// What typed tests run in, and what they are called.
using DeviceTypes = testing::Types<float, BFloat16, Float16>;
struct TypeNames {
  template <typename T>
  static std::string GetName(int) {
    return std::is_same_v<T, float>      ? "float32"
           : std::is_same_v<T, BFloat16> ? "bfloat16"
                                         : "float16";
  }
};

// Fails the running test if memory beside an output, the state or the scratch was written.
// `left_behind` is every byte of the scratch at first.
template <typename T>
AttentionResults run_on_gpu(const AttentionProblem<T>& problem, Pass pass = Pass::kForwardBackward,
                            int left_behind = kNanBytes);

// The same forward, without a state.
template <typename T>
AttentionResults run_without_state(const AttentionProblem<T>& problem);

// Runs `times` calls on `streams` streams at once, or captured once into a graph that is replayed,
// and returns the results of each.
enum class How { kStreams, kGraph };
template <typename T>
std::vector<AttentionResults> run_often_on_gpu(const AttentionProblem<T>& problem, int times,
                                               How how);

// Compares with the definition: float32 as on the CPU; narrow types may be twice as far off as the
// definition rounded once; a gate adds one rounding of the terms.
template <typename T>
void expect_gpu_close(const AttentionResults& actual, const AttentionResults& expected,
                      const AttentionCase& c);

// All of it on the well-conditioned form of the case.
template <typename T>
void check_on_gpu(const AttentionCase& c);

}  // namespace mala::test
