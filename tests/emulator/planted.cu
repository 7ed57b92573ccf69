// Kernels for the emulator's own test, each with room for mistakes.
#include <cooperative_groups.h>
#include <cuda_runtime.h>

#include "tests/emulator/planted.h"

namespace mala::emulator {
namespace {

template <typename T>
class OnDevice {
 public:
  explicit OnDevice(size_t count) : count_(count) { cudaMalloc(&data_, count * sizeof(T)); }
  explicit OnDevice(const std::vector<T>& host) : OnDevice(host.size()) {
    cudaMemcpy(data_, host.data(), count_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~OnDevice() { cudaFree(data_); }
  OnDevice(const OnDevice&) = delete;

  T* data() const { return data_; }
  std::vector<T> copy_back() const {
    std::vector<T> host(count_);
    cudaMemcpy(host.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost);
    return host;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

__device__ uint32_t address_of(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ void copy_four(uint32_t to, const float* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(16)
               : "memory");
  asm volatile("cp.async.commit_group;" ::: "memory");
}

__device__ float load(uint32_t from) {
  float x;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from));
  return x;
}

// 64 threads, four numbers each. What a thread reads was copied by one of the other warp.
__global__ void copy_kernel(const float* from, float* to, Mistake mistake) {
  extern __shared__ __align__(16) float numbers[];
  const int thread = threadIdx.x, other = (thread + 32) % 64;
  copy_four(address_of(numbers + 4 * thread), from + 4 * thread);
  if (mistake != Mistake::kNoWait) asm volatile("cp.async.wait_group %0;" ::"n"(0) : "memory");
  if (mistake == Mistake::kTwoWays && thread % 2 == 0) __shfl_sync(~0u, 1.0f, 0);
  if (mistake == Mistake::kFewArrive && thread < 32) {
    asm volatile("bar.sync %0, %1;" ::"r"(1), "n"(64) : "memory");
  }
  if (mistake == Mistake::kTwoWays) __syncwarp();
  if (mistake != Mistake::kNoBarrier) __syncthreads();
  if (mistake == Mistake::kBehind) numbers[256 + thread] = 1.0f;
  const int beyond = mistake == Mistake::kBeyond ? 1 : 0;
  for (int i = 0; i < 4; ++i)
    to[4 * other + i] = load(address_of(numbers + 4 * other + i + beyond));
  if (mistake == Mistake::kStray) to[thread] = from[256 + thread];
}

// Units of 16 bytes are eight elements of a row, or on the right of a column; eight units behind
// each other make a block, and the two blocks of a row follow each other.
__device__ uint64_t descriptor(const void* shared) {
  constexpr uint64_t kNextUnit = 128 / 16, kNextRows = 256 / 16;
  return address_of(shared) / 16 | kNextUnit << 16 | kNextRows << 32;
}
__device__ int place_of(int row, int depth) {
  return row / 8 * 128 + depth / 8 * 64 + row % 8 * 8 + depth % 8;
}

// 128 threads.
__global__ void product_kernel(const uint16_t* left, const uint16_t* right, float* out,
                               Mistake mistake) {
  __shared__ __align__(128) uint16_t rows[64 * 16];
  __shared__ __align__(128) uint16_t columns[8 * 16];
  const int thread = threadIdx.x;
  for (int i = thread; i < 64 * 16; i += 128) rows[place_of(i / 16, i % 16)] = left[i];
  columns[place_of(thread % 8, thread / 8)] = right[thread];
  __syncthreads();
  float c[4] = {};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile(
      "{.reg .pred p; setp.ne.b32 p, %6, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3}, %4, %5, p, 1, 1, 0, 0;}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "l"(descriptor(rows)), "l"(descriptor(columns)), "r"(1));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  const float early = c[0];
  if (mistake == Mistake::kOverwritten) columns[thread] = 0;
  if (mistake == Mistake::kSumsWritten) c[1] = 1.0f;
  __syncthreads();
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(0) : "memory");
  if (mistake == Mistake::kNoWait) c[0] = early;
  float* to = out + (thread / 32 * 16 + thread % 32 / 4) * 8 + thread % 4 * 2;
  for (int i = 0; i < 4; ++i) to[i / 2 * 64 + i % 2] = c[i];
}

__global__ void shuffle_kernel(const float* from, float* to) {
  const float x = from[threadIdx.x];
  to[threadIdx.x] = __shfl_xor_sync(~0u, x, 1) + __shfl_sync(~0u, x, 5);
}

__global__ void matrix_kernel(const uint32_t* from, uint32_t* to) {
  __shared__ __align__(16) uint32_t words[256];
  const int lane = threadIdx.x;
  for (int i = lane; i < 128; i += 32) words[i] = from[i];
  __syncwarp();
  uint32_t a, b, c, d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(a), "=r"(b), "=r"(c), "=r"(d)
               : "r"(address_of(words + 4 * lane)));
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(
                   address_of(words + 128 + 4 * lane)),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
  __syncwarp();
  for (int i = lane; i < 128; i += 32) to[i] = words[128 + i];
}

__device__ void wait_for_kernel_ahead() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

__global__ void first_kernel(const float* from, float* to) { to[threadIdx.x] = from[threadIdx.x]; }

// 16 threads, four numbers each. All wait at a barrier for the one that waits for the kernel ahead.
__global__ void second_kernel(const float* from, float* to, Mistake mistake) {
  __shared__ __align__(16) float numbers[64];
  const int thread = threadIdx.x;
  const float early = from[thread];
  if (mistake == Mistake::kLetsNext) asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  if (mistake == Mistake::kCopiedEarly)
    copy_four(address_of(numbers + 4 * thread), from + 4 * thread);
  if (thread == 0) wait_for_kernel_ahead();
  __syncthreads();
  if (mistake != Mistake::kCopiedEarly)
    copy_four(address_of(numbers + 4 * thread), from + 4 * thread);
  asm volatile("cp.async.wait_group %0;" ::"n"(0) : "memory");
  for (int i = 0; i < 4; ++i) to[4 * thread + i] = load(address_of(numbers + 4 * thread + i));
  __syncthreads();
  if (mistake == Mistake::kTooEarly) to[thread] = early;
}

__global__ void grid_kernel(uint32_t* wrote, uint32_t* saw, Mistake mistake) {
  if (mistake == Mistake::kLeavesEarly && blockIdx.x == 3) return;
  if (threadIdx.x == 0) wrote[blockIdx.x] = 10 * blockIdx.x;
  cooperative_groups::this_grid().sync();
  if (threadIdx.x == 0) saw[blockIdx.x] = wrote[(blockIdx.x + 1) % gridDim.x];
}

__global__ void cluster_kernel(uint32_t* to) {
  __shared__ uint32_t mine;
  uint32_t rank, blocks;
  uint64_t neighbour;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  mine = blockIdx.y;
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  asm volatile("mapa.u64 %0, %1, %2;"
               : "=l"(neighbour)
               : "l"(reinterpret_cast<uint64_t>(&mine)), "r"((rank + 1) % blocks));
  to[blockIdx.y] = *reinterpret_cast<const uint32_t*>(neighbour);
}

// A number of each lane goes twice round the blocks of a cluster, each of which adds one: by way of
// a barrier in the next block's memory, which is told of four bytes by each lane.
__global__ void chain_kernel(float* to, Mistake mistake) {
  extern __shared__ __align__(16) float received[];  // of two turns, then the barrier
  constexpr unsigned kBarrier = 64 * 4, kTurns = 2;
  const unsigned lane = threadIdx.x, mine = address_of(received);
  uint32_t rank, blocks, next;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(blocks));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(next)
               : "r"(mine), "r"((rank + 1) % blocks));
  if (lane == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mine + kBarrier), "r"(32));
  }
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
  if (rank == 0) {
    received[lane] = 0;
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(mine + kBarrier));
  }
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    uint32_t come = mistake == Mistake::kNoWait;
    while (!come) {
      asm volatile(
          "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
          "selp.u32 %0, 1, 0, p;}"
          : "=r"(come)
          : "r"(mine + kBarrier), "r"(turn & 1));
    }
    const float x = received[32 * turn + lane];
    to[(turn * blocks + rank) * 32 + lane] = x;
    const unsigned of_turn = turn + (rank + 1 == blocks ? 1 : 0);
    if (of_turn == kTurns) break;
    const unsigned place = next + (32 * of_turn + lane) * 4;
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.f32 [%0], %1, [%2];" ::"r"(
            place),
        "f"(x + 1), "r"(next + kBarrier)
        : "memory");
    if (mistake == Mistake::kFewArrive && lane == 5) continue;
    asm volatile("mbarrier.arrive.expect_tx.relaxed.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(
                     next + kBarrier),
                 "r"(mistake == Mistake::kTooManyBytes ? 8 : 4)
                 : "memory");
  }
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

}  // namespace

std::vector<float> run_copy(const std::vector<float>& from, Mistake mistake) {
  const OnDevice<float> source(from), to(from.size());
  copy_kernel<<<1, 64, 1024>>>(source.data(), to.data(), mistake);
  return to.copy_back();
}

std::vector<float> run_product(const std::vector<uint16_t>& left,
                               const std::vector<uint16_t>& right, Mistake mistake) {
  const OnDevice<uint16_t> a(left), b(right);
  const OnDevice<float> out(64 * 8);
  product_kernel<<<1, 128>>>(a.data(), b.data(), out.data(), mistake);
  return out.copy_back();
}

std::vector<float> run_shuffles(const std::vector<float>& from) {
  const OnDevice<float> source(from), to(from.size());
  shuffle_kernel<<<1, 32>>>(source.data(), to.data());
  return to.copy_back();
}

std::vector<uint32_t> run_matrices(const std::vector<uint32_t>& from) {
  const OnDevice<uint32_t> source(from), to(from.size());
  matrix_kernel<<<1, 32>>>(source.data(), to.data());
  return to.copy_back();
}

std::vector<float> run_two_kernels(const std::vector<float>& from, Mistake mistake) {
  const OnDevice<float> source(from), between(64), to(64);
  first_kernel<<<1, 64>>>(source.data(), between.data());
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(16);
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, second_kernel, between.data(), to.data(), mistake);
  return to.copy_back();
}

std::vector<uint32_t> run_grid(Mistake mistake) {
  constexpr unsigned kBlocks = 6;
  const OnDevice<uint32_t> wrote(kBlocks), saw(kBlocks);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(kBlocks);
  config.blockDim = dim3(64);
  config.attrs = &attribute;
  config.numAttrs = mistake == Mistake::kNotTogether ? 0 : 1;
  cudaLaunchKernelEx(&config, grid_kernel, wrote.data(), saw.data(), mistake);
  return saw.copy_back();
}

namespace {

// Launches blocks of a warp each, in clusters of four.
template <class Kernel, class... Args>
void launch_in_clusters(Kernel kernel, unsigned blocks, size_t shared_bytes, Args... args) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {1, 4, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1, blocks);
  config.blockDim = dim3(32);
  config.dynamicSmemBytes = shared_bytes;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, kernel, args...);
}

}  // namespace

std::vector<uint32_t> run_cluster() {
  const OnDevice<uint32_t> to(8);
  launch_in_clusters(cluster_kernel, 8, 0, to.data());
  return to.copy_back();
}

std::vector<float> run_chain(Mistake mistake) {
  const OnDevice<float> to(2 * 4 * 32);
  launch_in_clusters(chain_kernel, 4, 64 * 4 + 8, to.data(), mistake);
  return to.copy_back();
}

}  // namespace mala::emulator
