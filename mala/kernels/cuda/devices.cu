// Finds the GPUs, and tries on each whether code of this build runs there.
#include "mala/core/views.h"
#include "mala/kernels/cuda/check.h"
#include "mala/kernels/cuda/devices.h"

namespace mala::gpu {
namespace {

constexpr int kProbeTokens = 4, kProbeDim = 8;

// What the probe must leave at (i, j): different for each element, so that a kernel that did not
// run, or ran with other strides, is seen.
MALA_INLINE uint32_t probe_word(int64_t i, int64_t j) {
  return 0x6d616c61u + static_cast<uint32_t>(257 * i + j);
}

// One block; thread j of row i writes one word through a view, as all our kernels do.
__global__ void probe_kernel(MatrixView<uint32_t> out) {
  out.at(threadIdx.y, threadIdx.x) = probe_word(threadIdx.y, threadIdx.x);
}

// The device of the calling thread is put back at the end.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    MALA_CUDA_CHECK(cudaGetDevice(&before_));
    MALA_CUDA_CHECK(cudaSetDevice(device));
  }
  ~DeviceScope() { cudaSetDevice(before_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
};

struct DeviceWords {
  uint32_t* data = nullptr;

  explicit DeviceWords(size_t count) {
    MALA_CUDA_CHECK(cudaMalloc(&data, count * sizeof(uint32_t)));
  }
  ~DeviceWords() { cudaFree(data); }
  DeviceWords(const DeviceWords&) = delete;
  DeviceWords& operator=(const DeviceWords&) = delete;
};

// Throws unless the probe ran and left its words.
void probe(int device) {
  const DeviceScope scope(device);
  uint32_t words[kProbeTokens * kProbeDim] = {};
  const DeviceWords memory(kProbeTokens * kProbeDim);
  MALA_CUDA_CHECK(cudaMemset(memory.data, 0, sizeof words));
  probe_kernel<<<1, dim3(kProbeDim, kProbeTokens)>>>(
      {memory.data, kProbeTokens, kProbeDim, kProbeDim});
  MALA_CUDA_CHECK(cudaGetLastError());
  MALA_CUDA_CHECK(cudaMemcpy(words, memory.data, sizeof words, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kProbeTokens * kProbeDim; ++i) {
    const uint32_t expected = probe_word(i / kProbeDim, i % kProbeDim);
    check(words[i] == expected, "probe_kernel", "left ", words[i], " in word ", i, ", ", expected,
          " is needed; the device or its driver is faulty");
  }
}

Device describe(int device) {
  cudaDeviceProp properties{};
  MALA_CUDA_CHECK(cudaGetDeviceProperties(&properties, device));
  return {.name = properties.name,
          .major = properties.major,
          .minor = properties.minor,
          .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
          .multiprocessors = properties.multiProcessorCount};
}

struct Found {
  std::vector<Device> devices;
  std::string left_out;
};

Found find() {
  Found found;
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess || count == 0) {
    cudaGetLastError();
    found.left_out = str("[devices] no CUDA device: ", cudaGetErrorString(status),
                         "; install a driver that knows CUDA ", CUDART_VERSION / 1000,
                         ", check CUDA_VISIBLE_DEVICES, or use the CPU");
    return found;
  }
  for (int device = 0; device < count; ++device) {
    try {
      const Device description = describe(device);
      probe(device);
      found.devices.push_back(description);
    } catch (const Error& e) {
      found.left_out += str(found.left_out.empty() ? "" : "\n", "[devices] device ", device,
                            " is left out: ", e.what());
    }
  }
  return found;
}

const Found& found() {
  static const Found once = find();
  return once;
}

}  // namespace

std::vector<Device> devices() { return found().devices; }

std::string why_no_device() { return found().left_out; }

}  // namespace mala::gpu
