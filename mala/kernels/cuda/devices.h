// The GPUs that this build can use. No CUDA types, so that any file may include it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mala::gpu {

struct Device {
  std::string name;
  int major = 0, minor = 0;  // compute capability
  int64_t memory_bytes = 0;
  int multiprocessors = 0;
};

// Those that run code of this build, tried with a small kernel on the first call and remembered.
// Never throws for the lack of a device; the list is then empty.
std::vector<Device> devices();

// Why devices() is empty, or which ones it leaves out; empty text where none is missing.
std::string why_no_device();

}  // namespace mala::gpu
