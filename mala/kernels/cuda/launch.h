// The kernels of the operator, launched. No CUDA types, so that plain C++ can call it.
#pragma once

#include <array>
#include <string>

#include "mala/kernels/cuda/call.h"

namespace mala::gpu {

// What a plan follows from besides the sizes of a call.
struct DeviceFacts {
  int index = -1, multiprocessors = 0;
  int shared_bytes = 0;        // that a block can have
  bool can_overlap = false;    // a kernel may begin before the one ahead of it has ended
  bool has_wgmma = false;      // products of whole warpgroups
  bool runs_together = false;  // kernels whose blocks wait for each other
  // Blocks of clusters of 1, 2, 4 and 8 that can run at once, where each takes a multiprocessor:
  // not all of these have enough neighbours.
  static constexpr int kClusters = 4;
  int cluster_blocks[kClusters] = {};
};

// Where and how a call's kernels run, one after the other.
class Launcher {
 public:
  explicit Launcher(void* stream);
  // `tokens` are those that the error of a failed launch describes.
  template <typename T>
  Launcher(void* stream, const HeadsView<T>& tokens) : Launcher(stream) {
    sizes_ = {tokens.batch, tokens.heads, tokens.tokens, tokens.dim};
  }

  void* stream() const { return stream_; }
  const DeviceFacts& device() const { return device_; }
  std::string circumstances() const;

  // Whether the next kernel may begin before the one ahead of it has ended: all but the first of a
  // call, since only our kernels wait for each other inside, and only where the device can.
  bool overlaps() const { return has_begun_ && device_.can_overlap; }
  void note_begun() { has_begun_ = true; }

 private:
  void* stream_;
  DeviceFacts device_;
  std::array<int64_t, 4> sizes_ = {};  // (batch, heads, tokens, dim)
  bool has_begun_ = false;
};

// Sizes of the grid of a pass. Where a pass goes by warpgroups, `cluster` blocks of a head add
// their sums to each other, or it is 1 where they do not; elsewhere it is 0.
struct PassGrid {
  int64_t heads = 0, parts = 0, chunks = 1;
  int cluster = 0;
  int teams = 0;   // of such a block, where there are two kinds
  int blocks = 1;  // of a part of a causal forward by warpgroups, which are a cluster
};

template <typename T>
void launch_sum_keys(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid);
template <typename T>
void launch_apply_queries(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid);
template <typename T>
void launch_whole_heads(Launcher& on, const Call<T>& call, const PassGrid& grid);
// Whether its blocks fit on the device at once, which they have to.
template <typename T>
bool launch_spread_heads(Launcher& on, const Call<T>& call, const PassGrid& grid);
template <typename T>
void launch_prepare_right(Launcher& on, const Call<T>& call, int padded, int64_t units);
template <typename T>
void launch_query_gradients(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid);
template <typename T>
void launch_prepare_state_gradient(Launcher& on, const Call<T>& call, int padded, int64_t units);
template <typename T>
void launch_key_gradients(Launcher& on, const Call<T>& call, int padded, const PassGrid& grid);
template <typename T>
void launch_whole_gradients(Launcher& on, const Call<T>& call, const PassGrid& grid);
// Whether its blocks fit, as above.
template <typename T>
bool launch_spread_gradients(Launcher& on, const Call<T>& call, const PassGrid& grid);
template <typename T>
void launch_clear_uncounted(Launcher& on, const Call<T>& call);
// What comes through a tail, dout * gate, for tensors whose rows are all fit for vectors.
template <typename T>
void launch_tail_gradients(Launcher& on, const Call<T>& call, const HeadsView<T>& to);

// Adds the parts of each unit, in order: `of_keys` those of its keys, into the state; else those of
// the queries of all its heads, into the state's gradient.
struct PartSums {
  const float* parts = nullptr;
  float* sums = nullptr;
  bool of_keys = true;
  int64_t units = 0, most_parts = 0, size = 0;
  int cluster = 1;  // whose parts are one already
};
template <typename T>
void launch_add_parts(Launcher& on, const Call<T>& call, const PartSums& sums);

// Writes a table of sequences to device memory. The numbers travel as arguments of kernels, so that
// a captured graph keeps them.
void launch_write_sequences(Launcher& on, const Sequence* from, int64_t count, Sequence* to);

// A table of turns to fill: row i is position first + i * step, or that row of a caller's own
// table.
struct TurnTable {
  Turn* to = nullptr;
  int64_t first = 0, step = 1, rows = 0;
  int pairs = 0;
  bool of_keys = false;
  const float *cos = nullptr, *sin = nullptr;
  int64_t stride = 0;
};
struct TurnTables {
  static constexpr int kMost = 6, kMaxPairs = 128;
  TurnTable tables[kMost];
  int count = 0;
  double q_frequencies[kMaxPairs], k_frequencies[kMaxPairs];  // in whole turns per position
};
void launch_fill_turns(Launcher& on, const TurnTables& tables);

}  // namespace mala::gpu
