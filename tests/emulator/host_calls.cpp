// The devices that the emulator pretends to have, and its streams and graphs.
#include "tests/emulator/host_calls.h"

#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "mala/core/error.h"
#include "tests/emulator/device_kind.h"

struct CUstream_st {};
struct CUgraph_st {
  std::vector<mala::emulator::Launch> launches;
};

namespace mala::emulator {
namespace {

// Multiprocessors of each: one as large as an H100, then so few that a head falls into few parts
// and a part has several tiles.
constexpr int kMultiprocessors[] = {132, 1, 2, 3, 4};
constexpr int kDeviceCount = std::size(kMultiprocessors);
constexpr size_t kMemoryBytes = size_t{80} << 30;

int current_device = 0;
std::map<cudaStream_t, cudaGraph_t> captures;

}  // namespace

int multiprocessors() { return kMultiprocessors[current_device]; }

dim3 cluster_of(const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (config.attrs[i].id == cudaLaunchAttributeClusterDimension)
      return config.attrs[i].val.clusterDim;
  return {};
}

bool runs_together(const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (config.attrs[i].id == cudaLaunchAttributeCooperative)
      return config.attrs[i].val.cooperative;
  return false;
}

bool fits_at_once(const dim3& grid) {
  return !device_kind().is_part && grid.size() <= static_cast<unsigned>(multiprocessors());
}

bool begins_early(const cudaLaunchConfig_t& config) {
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (config.attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization)
      return config.attrs[i].val.programmaticStreamSerializationAllowed;
  return false;
}

void submit(cudaStream_t stream, const Launch& launch) {
  const auto capture = captures.find(stream);
  if (capture == captures.end()) return run(launch);
  capture->second->launches.push_back(launch);
}

}  // namespace mala::emulator

namespace emulator = mala::emulator;

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "refused by the emulator";
}
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaSuccess ? "cudaSuccess" : "cudaError";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = emulator::kDeviceCount;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = emulator::current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= emulator::kDeviceCount) return cudaErrorInvalidValue;
  emulator::current_device = device;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* to, cudaDeviceAttr what, int device) {
  *to = what == cudaDevAttrMultiProcessorCount ? emulator::kMultiprocessors[device]
        : what == cudaDevAttrCooperativeLaunch ? 1
        : what == cudaDevAttrComputeCapabilityMajor
            ? emulator::device_kind().major
            : static_cast<int>(emulator::device_kind().shared_bytes);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* to, int device) {
  *to = {};
  to->major = emulator::device_kind().major;
  to->multiProcessorCount = emulator::kMultiprocessors[device];
  to->totalGlobalMem = emulator::kMemoryBytes;
  const std::string name =
      mala::str("emulated, ", emulator::kMultiprocessors[device], " multiprocessors");
  name.copy(to->name, sizeof to->name - 1);
  return cudaSuccess;
}

// All is done when a call returns, unless it was captured.
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  emulator::captures[stream] = new CUgraph_st;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = emulator::captures[stream];
  emulator::captures.erase(stream);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* to, cudaGraph_t graph, unsigned long long) {
  *to = new CUgraph_st(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  for (const emulator::Launch& launch : graph->launches) emulator::run(launch);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cudaGraphDestroy(graph); }
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
