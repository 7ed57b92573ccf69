// Built without CUDA, though torch may find a GPU.
#include "bench/support/on_gpu.h"
#include "mala/core/error.h"

namespace mala::bench {
namespace {

[[noreturn]] void refuse() { throw Error("[bench] built without CUDA; build with nvcc on PATH"); }

}  // namespace

std::function<at::Tensor()> captured(const std::function<at::Tensor()>&) { refuse(); }
double measure_gpu_gflops(at::ScalarType) { refuse(); }
void wait_for_gpu() { refuse(); }

}  // namespace mala::bench
