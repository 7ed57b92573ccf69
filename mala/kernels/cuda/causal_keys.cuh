// What a causal sweep knows of keys: the sums before a tile, and the keys and values within it.
#pragma once

#include "mala/kernels/cuda/causal_matrix.cuh"
#include "mala/kernels/cuda/causal_weights.cuh"

namespace mala::gpu {

template <int kDim>
constexpr int kSweepBlocks = kDim <= 64 ? 2 : 1;

// Shared memory of a sweep: vectors, numbers of the tile's tokens, three tiles, the head's matrix
// where it runs along, and tokens as they came.
template <typename T, int kDim>
struct SweepMemory {
  static constexpr int kVectors = 6, kNumbers = 8;
  static constexpr int kVectorBytes = (kVectors * kDim + kNumbers * kTileTokens) * 4;
  static constexpr int kTileBytes = FloatTile<kDim>::bytes(kTileTokens);
  static constexpr int kMatrixBytes = kRunsInShared<kDim> ? FloatTile<kDim>::bytes(kDim) : 0;
  static constexpr int kFixedBytes = kVectorBytes + 3 * kTileBytes + kMatrixBytes;
  static constexpr int kRawBytes = RawRows<T, kDim>::kBytes, kRawTiles = kDim <= 64 ? 4 : 3;
  static_assert(kFixedBytes + kRawTiles * kRawBytes <= kSharedBytes);

  // With as many tokens as they came as there is room for.
  static constexpr int bytes(int of_device) {
    int tiles = kRawTiles;
    while (tiles > 0 && kFixedBytes + tiles * kRawBytes > of_device) --tiles;
    return kFixedBytes + tiles * kRawBytes;
  }

  std::byte* memory;

  __device__ float* vector(int index) const {
    return reinterpret_cast<float*>(memory) + index * kDim;
  }
  // One for each token of the tile.
  __device__ float* numbers(int index) const { return vector(kVectors) + index * kTileTokens; }
  __device__ FloatTile<kDim> tile(int index) const {
    return {reinterpret_cast<float*>(memory + kVectorBytes + index * kTileBytes)};
  }
  __device__ HeadMatrix<kDim> matrix() const { return {tile(3)}; }
  // The columns of a head are as many as `cols`.
  __device__ RawRows<T, kDim> raw(int index, const Rows<const T>& rows, int64_t cols) const {
    auto* data = reinterpret_cast<T*>(memory + kFixedBytes + index * kRawBytes);
    const bool has_room = kFixedBytes + (index + 1) * kRawBytes <= launched_bytes();
    return {rows, {data}, static_cast<int>(cols), has_room && rows.vectors && rows.data};
  }
};

template <int kDim>
using SweepMatrix = std::conditional_t<kRunsInShared<kDim>, HeadMatrix<kDim>, GlobalMatrix>;

// In shared memory, or where a scan left it.
template <typename T, int kDim>
__device__ __forceinline__ SweepMatrix<kDim> sweep_matrix(const SweepMemory<T, kDim>& memory,
                                                          const float* global,
                                                          const StateLayout& layout) {
  if constexpr (kRunsInShared<kDim>) {
    return memory.matrix();
  } else {
    return {global, layout};
  }
}

// Vectors of kDim floats in shared memory, padded with zeros: sums over the keys before a tile. The
// values are taken about a centre, that of the part: what they have in common does not enter the
// products. In the first tile of all the centre is zero, and that of the part comes after it. Then
// by how much the sum of keys was more than that of rotated ones before the part: where nothing
// turns, it stays so.
template <int kDim>
struct KeyState {
  float *keys, *rotated_keys, *values, *centre, *part_centre, *difference;

  template <typename T>
  __device__ __forceinline__ explicit KeyState(const SweepMemory<T, kDim>& memory)
      : keys(memory.vector(0)),
        rotated_keys(memory.vector(1)),
        values(memory.vector(2)),
        centre(memory.vector(3)),
        part_centre(memory.vector(4)),
        difference(memory.vector(5)) {}
};

// Of each query head's part: what the scan left for its head of keys.
template <typename T>
__device__ __forceinline__ const float* prefix_of(const Call<T>& call, const Task& task) {
  const Sequence& sequence = task.sequence;
  const int64_t slot =
      sequence.q_parts_before * call.kv_heads + task.kv_head * sequence.q_parts + blockIdx.y;
  return call.prefixes + slot * call.layout.size();
}

// Likewise the gradient of the sums after a part.
template <typename T>
__device__ __forceinline__ const float* suffix_of(const Call<T>& call, const Task& task) {
  return call.suffixes + (prefix_of(call, task) - call.prefixes);
}

// The weights of a head's tokens.
template <typename T>
__device__ __forceinline__ SweepWeights* weights_of(const Call<T>& call, const Sequence& sequence,
                                                    int64_t head) {
  const int64_t before = sequence.batch * call.inputs.q.tokens + sequence.q_first;
  return call.token_weights + before * call.heads + head * sequence.q_count;
}

// Whether there is nothing before a token of the task's sequence.
__device__ __forceinline__ bool comes_first(const Task& task, int64_t token) {
  return task.sequence.earlier + token == 0;
}

__device__ __forceinline__ bool is_number(float x) { return fabsf(x) <= 3.4e38f; }

// The mean of the values before a part. The first part of all has none before it, and takes that of
// its first tile: all tokens but those of the tile itself know it.
template <typename T>
__device__ __forceinline__ float part_centre(const Call<T>& call, const Task& task, int column) {
  if (column >= call.layout.value_dim) return 0.0f;
  if (!comes_first(task, task.first)) {
    return prefix_of(call, task)[call.layout.values() + column];
  }
  const Sequence& sequence = task.sequence;
  const Rows<const T> v =
      rows_of(call.inputs.v, sequence.batch, task.kv_head, sequence.k_first, false);
  const int count = static_cast<int>(min(sequence.k_count, int64_t{kTileTokens}));
  float sum = 0.0f;
#pragma unroll 8
  for (int token = 0; token < count; ++token) sum += widen(*v.at(token, column));
  const float mean = sum / static_cast<float>(count);
  return is_number(mean) ? mean : 0.0f;
}

template <typename T, int kDim>
__device__ __forceinline__ void start_state(const Call<T>& call, const Task& task,
                                            const KeyState<kDim>& to) {
  const float* from = prefix_of(call, task);
  const StateLayout& layout = call.layout;
  for (int i = threadIdx.x; i < kDim; i += blockDim.x) {
    to.keys[i] = i < layout.dim ? from[layout.keys() + i] : 0.0f;
    to.rotated_keys[i] = i < layout.dim ? from[layout.rotated_keys() + i] : 0.0f;
    to.difference[i] = to.keys[i] - to.rotated_keys[i];
    to.part_centre[i] = part_centre(call, task, i);
    to.centre[i] = comes_first(task, task.first) ? 0.0f : to.part_centre[i];
    to.values[i] = 0.0f;  // about their own mean
  }
  __syncthreads();
}

// The keys of a tile after they turn; before, which become the sums up to each; and the values. A
// value that is no number would reach earlier tokens, whose weight for it is zero: it is left out,
// and `broken` has the first row of each column from which on nothing is a number.
template <int kDim>
struct KeyTiles {
  FloatTile<kDim> rotated, prefixes, values;
  int* broken;

  template <typename T>
  __device__ __forceinline__ explicit KeyTiles(const SweepMemory<T, kDim>& memory)
      : rotated(memory.tile(0)),
        prefixes(memory.tile(1)),
        values(memory.tile(2)),
        broken(reinterpret_cast<int*>(memory.numbers(4))) {
    static_assert(SweepMemory<T, kDim>::kNumbers * kTileTokens >= 4 * kTileTokens + kDim);
  }
  __device__ __forceinline__ void mend() const {
    for (int i = threadIdx.x; i < kDim; i += blockDim.x) broken[i] = kTileTokens;
  }
};

// Fills the tiles: each warp its rows, and of their columns those of its column warp.
template <typename T, int kDim, class Kind>
struct CausalKeys {
  const Call<T>& call;
  const Task& task;
  KeyTiles<kDim> tiles;
  KeyState<kDim> state;
  RawRows<T, kDim> k, v;
  int64_t end;  // of the keys that count

  __device__ __forceinline__ CausalKeys(const Call<T>& of, const Task& part,
                                        const KeyTiles<kDim>& to, const KeyState<kDim>& about,
                                        const SweepMemory<T, kDim>& memory)
      : call(of),
        task(part),
        tiles(to),
        state(about),
        k(memory.raw(0, rows(of.inputs.k, part, of.vectors.k), of.layout.dim)),
        v(memory.raw(1, rows(of.inputs.v, part, of.vectors.v), of.layout.value_dim)),
        end(min(part.end, part.sequence.k_count)) {
    ask_for(part.first);
  }

  __device__ __forceinline__ void ask_for(int64_t first) const {
    k.ask_for(first, end);
    v.ask_for(first, end);
    commit_copies();
  }

  // Eights of tokens of a tile that have keys.
  __device__ __forceinline__ int eights(int64_t first) const {
    return static_cast<int>(min(divide_up(max(end - first, int64_t{0}), 8), int64_t{kTileEights}));
  }

  // Whether a value of this lane's is no number.
  __device__ __forceinline__ bool stage(int64_t first) const {
    const SweepLane lane;
    bool broken = false;
    wait_copies<0>();  // lanes read what they asked for themselves
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = lane.row() + 8 * half;
      const int64_t token = first + row;
      const bool exists = token < end;
      const Spot spot = spot_at<Kind>(call.k_turning, task.sequence.earlier + token,
                                      task.sequence.k_width, exists);
#pragma unroll
      for (int block = 0; block < 2; ++block) {
        const int column = lane.column(block);
        stage_key(row, column, token, exists, spot);
        broken |= stage_value(row, column, token, exists);
      }
    }
    if (first + kTileTokens < task.end) ask_for(first + kTileTokens);
    return broken;
  }

 private:
  static __device__ __forceinline__ Rows<const T> rows(const HeadsView<const T>& view,
                                                       const Task& part, bool vectors) {
    const Sequence& sequence = part.sequence;
    return rows_of(view, sequence.batch, part.kv_head, sequence.k_first, Kind::vectors(vectors));
  }

  __device__ __forceinline__ void stage_key(int row, int column, int64_t token, bool exists,
                                            const Spot& spot) const {
    Eight phi{}, turned{};
    if (exists && column < call.layout.dim) {
      const Turns<Kind::kHow, 8> by(call.k_turning, spot, column);
      phi = features<T>(Kind::feature(call), k.eight(row, token, true, column));
      turned = as_operands<T>(rotated<false>(phi, call.k_turning, by));
    }
    tiles.prefixes.set_eight(row, column, phi);
    tiles.rotated.set_eight(row, column, turned);
  }

  __device__ __forceinline__ bool stage_value(int row, int column, int64_t token,
                                              bool exists) const {
    Eight value{};
    bool broken = false;
    if (exists && column < call.layout.value_dim) {
      value = v.eight(row, token, true, column);
      add_scaled(value, -1.0f, eight_of(state.centre, column));
      value = as_operands<T>(value);
#pragma unroll
      for (int i = 0; i < 8; ++i) broken |= !is_number(value.x[i]);
      if (broken) value = without_broken(value, row, column);
    }
    tiles.values.set_eight(row, column, value);
    return broken;
  }

  __device__ __forceinline__ Eight without_broken(Eight value, int row, int column) const {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (is_number(value.x[i])) continue;
      atomicMin(tiles.broken + column + i, row);
      value.x[i] = 0.0f;
    }
    return value;
  }
};

// The sums of keys that run along with a sweep from the first tile to the last.
template <typename T, int kDim, class Kind>
struct CausalKeySums {
  static constexpr bool kRuns = kRunsInShared<kDim>;

  const Call<T>& call;
  const Task& task;
  SweepMemory<T, kDim> memory;
  KeyTiles<kDim> tiles;
  KeyState<kDim> state;
  CausalKeys<T, kDim, Kind> keys;
  RunningMatrix<T, kDim, kRuns ? kDim / 64 : 1> matrix;

  __device__ __forceinline__ CausalKeySums(const Call<T>& of, const Task& part,
                                           const SweepMemory<T, kDim>& in)
      : call(of), task(part), memory(in), tiles(in), state(in), keys(of, part, tiles, state, in) {
    tiles.mend();
    start_state(of, part, state);
    if constexpr (kRuns) {
      matrix.load(prefix_of(of, part), of.layout);
      matrix.store(in.matrix());
    }
  }
  // Then the tiles are ready, and the state is that before the tile. Whether something is broken.
  __device__ __forceinline__ bool begin_tile(int64_t first) const {
    const bool broken = __syncthreads_or(keys.stage(first));
    sum_rows_up<true>(tiles.prefixes, state.keys);
    __syncthreads();
    return broken;
  }
  __device__ __forceinline__ void end_tile(int64_t first, bool broken) {
    if (first + kTileTokens >= task.end) return;
    if (comes_first(task, first)) move_centre();
    if constexpr (kRuns) {
      matrix.add(tiles.rotated, tiles.values);
      __syncthreads();
    }
    sum_columns(tiles.rotated, nullptr, state.rotated_keys);
    sum_columns(tiles.values, nullptr, state.values);
    if constexpr (kRuns) matrix.store(memory.matrix());
    __syncthreads();
    if (!broken) return;
    for (int i = threadIdx.x; i < kDim; i += blockDim.x) {
      if (tiles.broken[i] < kTileTokens) state.values[i] = NAN;
    }
    tiles.mend();
    __syncthreads();
  }

 private:
  // Of the first tile of all, whose queries took values as they are: they go into the sums about
  // the centre.
  __device__ __forceinline__ void move_centre() const {
    const int counted = static_cast<int>(min(keys.end, int64_t{kTileTokens}));
    __syncthreads();
    for (int i = threadIdx.x; i < counted * kDim; i += blockDim.x) {
      float* value = tiles.values.at(i / kDim, i % kDim);
      *value = as_operand<T>(*value - state.part_centre[i % kDim]);
    }
    for (int i = threadIdx.x; i < kDim; i += blockDim.x) state.centre[i] = state.part_centre[i];
    __syncthreads();
  }
};

}  // namespace mala::gpu
