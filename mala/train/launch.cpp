// What torchrun puts into the environment.
#include <ATen/Context.h>
#include <torch/cuda.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "mala/core/error.h"
#include "mala/train/group.h"

namespace mala::train {
namespace {

constexpr const char* kHow =
    "; start several processes with torchrun --no-python --nproc-per-node N mala train ...";

// The number, or `absent` where the variable is not set.
int64_t number_in(const char* name, int64_t absent) {
  const char* text = std::getenv(name);
  if (!text) return absent;
  const std::string_view view(text);
  int64_t value = -1;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  check(error == std::errc() && end == view.data() + view.size() && value >= 0, "train", name,
        " is '", view, "' in the environment; needs a whole number", kHow);
  return value;
}

}  // namespace

Launch launch_of_environment() {
  Launch launch;
  launch.rank = number_in("RANK", 0);
  launch.world = number_in("WORLD_SIZE", 1);
  launch.local_rank = number_in("LOCAL_RANK", launch.rank);
  check(launch.world >= 1 && launch.rank < launch.world, "train", "RANK is ", launch.rank,
        " and WORLD_SIZE ", launch.world, " in the environment; ranks count from 0", kHow);
  const char* address = std::getenv("MASTER_ADDR");
  if (launch.world == 1 && (!address || !std::getenv("RANK"))) return launch;
  launch.port = number_in("MASTER_PORT", 0);
  check(address && launch.port > 0 && launch.port < 65536, "train", "WORLD_SIZE is ", launch.world,
        " but MASTER_ADDR or MASTER_PORT is not set", kHow);
  launch.address = address;
  return launch;
}

torch::Device choose_device(const std::string& word, const Launch& launch) {
  const int64_t devices = static_cast<int64_t>(torch::cuda::device_count());
  if (word == "cpu" || (word == "auto" && devices == 0)) return torch::kCPU;
  check(devices > 0, "train",
        "run.device is cuda, but no GPU can be used here; use run.device=cpu,",
        " or a build with CUDA on a machine with a GPU");
  check(launch.local_rank < devices, "train", "process ", launch.local_rank,
        " of this machine has no GPU, there are ", devices, "; start fewer processes");
  return {torch::kCUDA, static_cast<c10::DeviceIndex>(launch.local_rank)};
}

}  // namespace mala::train
