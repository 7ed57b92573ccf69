// Where a model works and in which type of number, by the words that people use.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <string>

namespace mala::tasks {

struct Placement {
  c10::Device device = c10::kCPU;
  c10::ScalarType dtype = c10::kFloat;
};

// The device is "auto" (a GPU where torch can use one), "cpu", "cuda" or "cuda:1"; the type is
// "float32", "bf16" or "bfloat16", "float16" or "fp16", "float64". Throws mala::Error for other
// words, for a GPU that is not there, and for float16 on the CPU.
Placement choose_placement(const std::string& device, const std::string& dtype);

// "bfloat16 on cuda:0"
std::string describe(const Placement& placement);

}  // namespace mala::tasks
