// The second pass of the forward on Hopper: queries through the state. Usual calls in bfloat16
// alone.
#pragma once

#include "mala/kernels/cuda/hopper/matrix.cuh"
#include "mala/kernels/cuda/hopper/near_turns.cuh"
#include "mala/kernels/cuda/hopper/shared_rows.cuh"
#include "mala/kernels/cuda/weights.cuh"

namespace mala::gpu::hopper {

// S_c of a usual head, whose floats lie at place(i), with the mean value as its vector.
template <int kThreads, int kDim, class Place>
__device__ __forceinline__ void fill_centred(const FineMatrix<kDim>& to, const float* state,
                                             const QueryVectors<kDim>& head, Place place) {
  to.template fill<kThreads>([&](unsigned feature, unsigned column) {
    Four s = load_four(state + place(feature * kDim + column));
    add_scaled(s, -head.rotated_sum[feature], load_four(head.value_mean + column));
    return s;
  });
  to.fill_vector(head.value_mean);
}

// A lane's queries of tile after tile, by way of slots in shared memory.
template <int kDim>
struct LaneQueries {
  static constexpr int kBlocks = kDim / kBlockCols;
  LaneRows<kDim> rows;
  uint4 raw[2][kBlocks];

  __device__ __forceinline__ LaneQueries(const Rows<const BFloat16>& from, const Task& task,
                                         const Team<kGroupThreads>& team, uint32_t slots)
      : rows(from, task, team, slots) {}

  __device__ __forceinline__ void copy(bool exists, int step) {
    if (exists) rows.copy(step);
    commit_copies();
  }
  __device__ __forceinline__ void begin_tile(bool is_last, int step) {
    wait_copies<0>();
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) raw[half][block] = rows.raw(half, block);
    }
    copy(!is_last, step);
  }
};

// The pass of one warpgroup over its tiles. Begins to copy as soon as it is made.
template <int kDim, class Kind>
struct ApplyPass {
  static constexpr int kBlocks = kDim / kBlockCols, kSlotBytes = LaneRows<kDim>::kSlotBytes;

  Team<kGroupThreads> team;
  int tiles, step;
  LaneQueries<kDim> queries;

  __device__ __forceinline__ ApplyPass(const Call<BFloat16>& call, const Task& task, int teams,
                                       uint32_t slots)
      : tiles(team.tiles(task, teams)),
        step(teams * kRowTokens),
        queries(query_rows<Kind>(call.inputs.q, task, true), task, team, slots) {
    queries.copy(tiles > 0, step);
  }

  __device__ __forceinline__ void run(const Call<BFloat16>& call, const Turning& turning,
                                      const Task& task, float c, const QueryVectors<kDim>& head,
                                      const FineMatrix<kDim>& matrix) {
    const uint64_t right = matrix.panels(), mean = matrix.vector();
    const int t = team.thread % 4, row = team.index * kRowTokens + team.row();
    RowCursor<BFloat16> out(query_rows<Kind>(call.out, task, true), task, row, 8 * t);
    LaneTokens<Kind, 1> tokens(turning, task, task.sequence.q_width, row, step);
    for (int tile = 0; tile < tiles; ++tile) {
      const Spot spots[2] = {tokens.spot(0), tokens.spot(1)};
      queries.begin_tile(tile + 1 == tiles, step);
      Magnitude magnitudes[2];
      HeadAccumulator<kDim> product;
      Eight turned[kBlocks][2];
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        const int column = block * kBlockCols + 8 * t;
        const MeanKeys<8> keys(head, column);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          turned[block][half] = meet_keys<Kind>(call, turning, keys, spots[half], column,
                                                queries.raw[half][block], magnitudes[half])
                                    .turned;
        }
      }
      begin_products();
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        multiply_block(product, block, turned[block][0], turned[block][1], right);
      }
      const SharedRows rows;
      const RowWeights weights =
          weights_of_sums<Kind>(call, c,
                                {rows.sum(magnitudes[0].s, magnitudes[1].s),
                                 Kind::kTurns ? rows.sum(magnitudes[0].r, magnitudes[1].r) : 0.0f});
      const float factor = other_than_zero(weights.product);
      float factors[2], ratios[2];
      rows.tell(factor, factors);
      rows.tell(weights.mean * nearly_inverse(factor), ratios);
      begin_products();  // with registers that were not there before
      multiply_vector(product, ratios, mean);
      commit_products();
      wait_products();
      write(call, task, product, factors, out, tokens);
      out.go_on(step);
      tokens.advance(turning, step);
    }
  }

 private:
  // What the mean value's weight is divided by. So small a number leaves nothing of a product.
  static __device__ __forceinline__ float other_than_zero(float x) {
    return fabsf(x) < 1e-30f ? 1e-30f : x;
  }

  __device__ __forceinline__ void write(const Call<BFloat16>& call, const Task& task,
                                        const HeadAccumulator<kDim>& product,
                                        const float (&factors)[2], const RowCursor<BFloat16>& out,
                                        const LaneTokens<Kind, 1>& tokens) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const bool exists = out.exists(8 * half);
      if (Kind::kTail && !exists) continue;
      BFloat16* to = out.at(8 * half);
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        Eight y = scaled(eight_of(product, half, block), factors[half]);
        if (Kind::kTail) y = with_tail(call, task, tokens.token(half), block, y);
        store_eight_if(exists, to + block * kBlockCols, y);
      }
    }
  }

  __device__ __forceinline__ Eight with_tail(const Call<BFloat16>& call, const Task& task,
                                             int64_t token, int block, Eight y) const {
    const int column = block * kBlockCols + team.thread % 4 * 8;
    const Rows<const BFloat16> local = query_rows<Kind>(call.inputs.local, task, true);
    const Rows<const BFloat16> gate = query_rows<Kind>(call.inputs.gate, task, true);
    if (local.data) add_scaled(y, 1.0f, load_eight(local.at(token, column)));
    if (gate.data) y = times(y, load_eight(gate.at(token, column)));
    return y;
  }
};

// S_c and the vectors of a head, from a state whose floats lie at place(i); then everyone may read
// them.
template <int kThreads, int kDim, class Place>
__device__ __forceinline__ void show_state(const Call<BFloat16>& call, const HeadScales& scales,
                                           const float* state, Place place,
                                           const QueryVectors<kDim>& head,
                                           const FineMatrix<kDim>& matrix) {
  fill_vectors(call, state, scales, head);
  fill_centred<kThreads>(matrix, state, head, place);
  show_to_tensor_cores();
  __syncthreads();
}

// S_c, vectors, and slots of queries.
template <int kDim, int kTeams, class Kind>
struct ApplyBlock {
  static constexpr int kThreads = kTeams * kGroupThreads;
  static constexpr int kVectors = FineMatrix<kDim>::kBytes;
  static constexpr int kSlots = kVectors + QueryVectors<kDim>::kBytes;
  static constexpr int kTurns = kSlots + kTeams * ApplyPass<kDim, Kind>::kSlotBytes;
  static constexpr int kBytes = kTurns + near_bytes<Kind>(near_bytes_forward(kDim));
  static_assert(fit_at_once(1, kBytes));
};

// How many warpgroups a block has.
template <int kDim>
constexpr int kApplyTeams = teams_on_hopper(kDim).apply_queries;

// Grid (heads of queries, parts).
template <int kDim, int kTeams, class Kind>
__global__ void __launch_bounds__(ApplyBlock<kDim, kTeams, Kind>::kThreads, 1)
    apply_queries_kernel(const __grid_constant__ Call<BFloat16> call) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  using Block = ApplyBlock<kDim, kTeams, Kind>;
  extern __shared__ __align__(kAlign) std::byte panels_of_block[];
  std::byte* memory = panels_of_block;
  if (call.table) wait_for_previous();
  const Task task = query_task(call);
  if (task.first == task.end) return;
  const Team<kGroupThreads> team;
  const uint32_t slots = shared_address(memory) + Block::kSlots;
  ApplyPass<kDim, Kind> pass(call, task, kTeams,
                             slots + team.index * ApplyPass<kDim, Kind>::kSlotBytes);
  Turning turning =
      near_turning<kDim, Kind>(call.q_turning, call.q_frequencies,
                               near_tokens(task, task.sequence.q_width), memory + Block::kTurns);
  wait_for_turns(turning);
  let_next_begin();
  const float* state = call.state + task.unit * call.layout.size();
  const HeadScales scales = head_scales(call, task.sequence.k_count);
  const QueryVectors<kDim> head(memory + Block::kVectors);
  const FineMatrix<kDim> matrix{shared_address(memory)};
  show_state<Block::kThreads>(
      call, scales, state, [](unsigned i) { return i; }, head, matrix);
  pass.run(call, turning, task, scales.c, head, matrix);
#else
  __trap();  // never launched there
#endif
}

}  // namespace mala::gpu::hopper
