// Words to devices and types.
#include "mala/tasks/placement.h"

#include <torch/cuda.h>

#include <charconv>
#include <map>

#include "mala/core/error.h"

namespace mala::tasks {
namespace {

constexpr const char* kPlacement = "placement";

// The number behind "cuda:"; negative where there is none or something else.
int gpu_number(const std::string& word) {
  int number = -1;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data() + 5, end, number);
  return error == std::errc() && rest == end ? number : -1;
}

c10::Device choose_gpu(const std::string& word) {
  const auto count = static_cast<int>(torch::cuda::device_count());
  check(torch::cuda::is_available() && count > 0, kPlacement, "--device ", word,
        " needs a GPU that torch can use, and there is none; try --device cpu, or build with CUDA",
        " on a machine that has one");
  const int number = word == "cuda" ? 0 : gpu_number(word);
  check(number >= 0 && number < count, kPlacement, "no device '", word, "'; there are ", count,
        ", from cuda:0 on");
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(number)};
}

c10::Device choose_device(const std::string& word) {
  if (word == "cpu") return c10::kCPU;
  if (word == "auto") return torch::cuda::is_available() ? choose_gpu("cuda") : c10::kCPU;
  check(word == "cuda" || word.starts_with("cuda:"), kPlacement, "no device '", word,
        "'; use auto, cpu, cuda or cuda:1");
  return choose_gpu(word);
}

c10::ScalarType choose_dtype(const std::string& word, c10::Device device) {
  static const std::map<std::string, c10::ScalarType> kTypes{
      {"float32", c10::kFloat}, {"bf16", c10::kBFloat16}, {"bfloat16", c10::kBFloat16},
      {"float16", c10::kHalf},  {"fp16", c10::kHalf},     {"float64", c10::kDouble}};
  const auto found = kTypes.find(word);
  check(found != kTypes.end(), kPlacement, "no type '", word,
        "'; use float32, bf16, float16 (on a GPU) or float64");
  check(found->second != c10::kHalf || !device.is_cpu(), kPlacement,
        "torch has nothing fast for float16 on the CPU; use --dtype bf16, which is as short");
  return found->second;
}

}  // namespace

Placement choose_placement(const std::string& device, const std::string& dtype) {
  const c10::Device chosen = choose_device(device);
  return {chosen, choose_dtype(dtype, chosen)};
}

std::string describe(const Placement& placement) {
  const char* type = placement.dtype == c10::kFloat      ? "float32"
                     : placement.dtype == c10::kBFloat16 ? "bfloat16"
                     : placement.dtype == c10::kHalf     ? "float16"
                                                         : "float64";
  return str(type, " on ", placement.device.str());
}

}  // namespace mala::tasks
