// The small kernels around the passes: tables before them, sums between them, zeros beside them.
#include <algorithm>

#include "mala/kernels/cuda/eight.cuh"
#include "mala/kernels/cuda/launch.cuh"
#include "mala/kernels/cuda/task.cuh"

namespace mala::gpu {
namespace {

struct SequencesByValue {
  static constexpr int kMost = 256;  // what fits into the arguments of a kernel, with room to spare
  Sequence items[kMost];
};

__global__ void write_sequences_kernel(const __grid_constant__ SequencesByValue from, int count,
                                       Sequence* to) {
  wait_for_previous();
  let_next_begin();
  for (int i = threadIdx.x; i < count; i += blockDim.x) to[i] = from.items[i];
}

// Grid (rows in groups, tables). Angles in double, taken off whole turns before cos and sin.
__global__ void fill_turns_kernel(const __grid_constant__ TurnTables tables) {
  wait_for_previous();
  let_next_begin();
  const TurnTable& table = tables.tables[blockIdx.y];
  const double* frequencies = table.of_keys ? tables.k_frequencies : tables.q_frequencies;
  const int64_t entries = table.rows * table.pairs, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < entries; i += step) {
    if (table.cos) {
      const int64_t at = i / table.pairs * table.stride + i % table.pairs;
      table.to[i] = {table.cos[at], table.sin[at]};
      continue;
    }
    const int64_t position = table.first + i / table.pairs * table.step;
    double turns = static_cast<double>(position) * frequencies[i % table.pairs];
    turns -= rint(turns);
    double sin, cos;
    sincospi(2 * turns, &sin, &cos);
    table.to[i] = {static_cast<float>(cos), static_cast<float>(sin)};
  }
}

constexpr int kAddThreads = 128;

// Grid (units, fours of elements): in double, and always in the same order. Where there are many
// parts, `slices` threads share a four.
template <typename T>
__global__ void __launch_bounds__(kAddThreads)
    add_parts_kernel(const __grid_constant__ Call<T> call, const __grid_constant__ PartSums sums,
                     int slices) {
  __shared__ double shared[4][kAddThreads];
  wait_for_previous();
  let_next_begin();
  const int fours = kAddThreads / slices;
  const int four = threadIdx.x % fours, slice = threadIdx.x / fours;
  const unsigned heads = static_cast<unsigned>(call.kv_heads);
  const int64_t unit = blockIdx.x, index = blockIdx.x / heads, head = blockIdx.x % heads;
  const Sequence sequence = call.sequence(index);
  const int64_t group = sums.of_keys ? 1 : call.group;
  const int64_t parts = (sums.of_keys ? sequence.k_parts : sequence.q_parts) * group / sums.cluster;
  const int64_t before =
      (sums.of_keys ? sequence.k_parts_before : sequence.q_parts_before) * group / sums.cluster;
  const int64_t i = (int64_t{blockIdx.y} * fours + four) * 4;
  const float* from = sums.parts + (before * call.kv_heads + head * parts + slice) * sums.size + i;
  double sum[4] = {};
  if (i < sums.size) {
#pragma unroll 8
    for (int part = slice; part < static_cast<int>(parts); part += slices) {
      const Four x = load_four(from);
      for (int k = 0; k < 4; ++k) sum[k] += x.x[k];
      from += slices * sums.size;
    }
  }
  for (int k = 0; k < 4; ++k) shared[k][threadIdx.x] = sum[k];
  __syncthreads();
  if (slice > 0 || i >= sums.size) return;
  for (int k = 0; k < 4; ++k) {
    for (int other = 1; other < slices; ++other) sum[k] += shared[k][other * fours + four];
    sums.sums[unit * sums.size + i + k] = static_cast<float>(sum[k]);
  }
}

// Grid (units, some blocks): the gradients of keys and values beyond the count.
template <typename T>
__global__ void clear_uncounted_kernel(const __grid_constant__ Call<T> call) {
  wait_for_previous();
  let_next_begin();
  const unsigned heads = static_cast<unsigned>(call.kv_heads);
  const int64_t index = blockIdx.x / heads, head = blockIdx.x % heads;
  const int64_t first = call.sequence(index).k_count, count = call.inputs.k.tokens - first;
  const int64_t step = int64_t{gridDim.y} * blockDim.x;
  for (const HeadsView<T>& view : {call.gradients.k, call.gradients.v}) {
    const MatrixView<T> matrix = view.head(index, head);
    for (int64_t i = int64_t{blockIdx.y} * blockDim.x + threadIdx.x; i < count * matrix.cols;
         i += step) {
      matrix.at(first + i / matrix.cols, i % matrix.cols) = T{};
    }
  }
}

constexpr int kTailThreads = 192;  // whom the eights of heads of 64, 96 and 128 divide

// Grid (heads of all sequences, some blocks), of such heads: a thread has the same eight columns of
// some tokens.
template <typename T>
__global__ void __launch_bounds__(kTailThreads)
    tail_gradients_kernel(const __grid_constant__ Call<T> call,
                          const __grid_constant__ HeadsView<T> to) {
  wait_for_previous();
  let_next_begin();
  const unsigned heads = static_cast<unsigned>(to.heads), units = static_cast<unsigned>(to.dim / 8);
  const int64_t batch = blockIdx.x / heads, head = blockIdx.x % heads;
  const unsigned rows = kTailThreads / units;
  const int64_t column = threadIdx.x % units * 8;
  const bool has_gate = call.inputs.gate.data;
  const MatrixView<const T> dout = call.out_gradient.head(batch, head);
  const MatrixView<const T> gate = call.inputs.gate.head(batch, head);
  const MatrixView<T> gradient = to.head(batch, head);
  const int64_t step = int64_t{gridDim.y} * rows;
#pragma unroll 4
  for (int64_t token = blockIdx.y * rows + threadIdx.x / units; token < to.tokens; token += step) {
    Eight g = load_eight(&dout.at(token, column));
    if (has_gate) g = times(g, load_eight(&gate.at(token, column)));
    store_eight(&gradient.at(token, column), g);
  }
}

// Only to ask how many clusters of such blocks there can be.
__global__ void fill_multiprocessor_kernel() {}

void find_cluster_blocks(DeviceFacts& facts) {
  constexpr int kBytes = 200 * 1024;
  facts.cluster_blocks[0] = facts.multiprocessors;
  if (!facts.has_wgmma) return;
  MALA_CUDA_CHECK(cudaFuncSetAttribute(fill_multiprocessor_kernel,
                                       cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  for (int i = 1; i < DeviceFacts::kClusters; ++i) {
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(1, 1u << i);
    config.blockDim = dim3(512);
    config.dynamicSmemBytes = kBytes;
    cudaLaunchAttribute cluster{};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {1, 1u << i, 1};
    config.attrs = &cluster;
    config.numAttrs = 1;
    int count = 0;
    MALA_CUDA_CHECK(cudaOccupancyMaxActiveClusters(&count, fill_multiprocessor_kernel, &config));
    facts.cluster_blocks[i] = count << i;
  }
}

}  // namespace

Launcher::Launcher(void* stream) : stream_(stream) {
  // Asked for once, as long as a thread stays with a device: answers take longer than a launch.
  thread_local DeviceFacts facts;
  int index = 0;
  MALA_CUDA_CHECK(cudaGetDevice(&index));
  if (index != facts.index) {
    DeviceFacts found{.index = index};
    int major = 0;
    MALA_CUDA_CHECK(
        cudaDeviceGetAttribute(&found.multiprocessors, cudaDevAttrMultiProcessorCount, index));
    MALA_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    MALA_CUDA_CHECK(cudaDeviceGetAttribute(&found.shared_bytes,
                                           cudaDevAttrMaxSharedMemoryPerBlockOptin, index));
    int together = 0;
    MALA_CUDA_CHECK(cudaDeviceGetAttribute(&together, cudaDevAttrCooperativeLaunch, index));
    found.can_overlap = major >= 9;
    found.runs_together = together != 0;
    found.has_wgmma = kWithWgmma && major == 9;
    find_cluster_blocks(found);
    facts = found;
  }
  device_ = facts;
}

std::string Launcher::circumstances() const {
  const auto& [batch, heads, tokens, dim] = sizes_;
  return str("that was on GPU ", device_.index, ", for tokens of shape (", batch, ", ", heads, ", ",
             tokens, ", ", dim, ")");
}

void launch_write_sequences(Launcher& on, const Sequence* from, int64_t count, Sequence* to) {
  for (int64_t first = 0; first < count; first += SequencesByValue::kMost) {
    SequencesByValue some;
    const int here = static_cast<int>(std::min<int64_t>(SequencesByValue::kMost, count - first));
    std::copy_n(from + first, here, some.items);
    launch<write_sequences_kernel>(on, {dim3(1), 128, 0}, some, here, to + first);
  }
}

void launch_fill_turns(Launcher& on, const TurnTables& tables) {
  int64_t most = 0;
  for (const TurnTable& table : tables.tables) most = std::max(most, table.rows * table.pairs);
  constexpr int kThreads = 128;
  const int64_t blocks =
      std::min<int64_t>(divide_up(most, kThreads), 4 * on.device().multiprocessors);
  launch<fill_turns_kernel>(
      on, {dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(tables.count)), kThreads, 0},
      tables);
}

template <typename T>
void launch_add_parts(Launcher& on, const Call<T>& call, const PartSums& sums) {
  constexpr int kPartsOfSlice = 4, kMostSlices = 32;
  int slices = 1;
  while (slices < kMostSlices && slices * kPartsOfSlice < sums.most_parts / sums.cluster)
    slices *= 2;
  launch<add_parts_kernel<T>>(
      on,
      {dim3(static_cast<unsigned>(sums.units),
            static_cast<unsigned>(divide_up(sums.size, 4 * kAddThreads / slices))),
       kAddThreads, 0},
      call, sums, slices);
}

template <typename T>
void launch_clear_uncounted(Launcher& on, const Call<T>& call) {
  launch<clear_uncounted_kernel<T>>(
      on, {dim3(static_cast<unsigned>(call.sequences * call.kv_heads), 8), 256, 0}, call);
}

template <typename T>
void launch_tail_gradients(Launcher& on, const Call<T>& call, const HeadsView<T>& to) {
  constexpr int64_t kBlocksAtOnce = 8;  // on a multiprocessor, so that many loads are on their way
  const int64_t heads = to.batch * to.heads, rows = kTailThreads / (to.dim / 8);
  const int64_t most = kBlocksAtOnce * on.device().multiprocessors;
  const int64_t blocks = std::min(divide_up(most, heads), divide_up(to.tokens, rows));
  launch<tail_gradients_kernel<T>>(
      on, {dim3(static_cast<unsigned>(heads), static_cast<unsigned>(blocks)), kTailThreads, 0},
      call, to);
}

#define MALA_INSTANTIATE(T)                                                   \
  template void launch_add_parts(Launcher&, const Call<T>&, const PartSums&); \
  template void launch_clear_uncounted(Launcher&, const Call<T>&);            \
  template void launch_tail_gradients(Launcher&, const Call<T>&, const HeadsView<T>&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::gpu
