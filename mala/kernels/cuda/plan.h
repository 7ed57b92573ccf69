// How a call falls apart on a device: sequences, parts of their tokens, and where in the scratch
// everything lies. It follows from the sizes, from whether rows are fit for vectors, and from the
// device alone, so that every bit stays the same.
#pragma once

#include <algorithm>
#include <vector>

#include "mala/kernels/cuda/launch.h"

namespace mala::gpu {

// Hands out aligned pieces of memory, or only counts them where there is none.
class Arena {
 public:
  explicit Arena(std::span<std::byte> memory) : memory_(memory) {}

  template <typename U>
  U* take(int64_t count) {
    const int64_t at = used_;
    used_ += divide_up(count * static_cast<int64_t>(sizeof(U)), kAlign) * kAlign;
    return memory_.data() ? reinterpret_cast<U*>(start() + at) : nullptr;
  }
  int64_t bytes_needed() const { return used_ + kAlign; }

 private:
  static constexpr int64_t kAlign = 256;

  std::byte* start() const {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    return memory_.data() + (kAlign - address % kAlign) % kAlign;
  }

  std::span<std::byte> memory_;
  int64_t used_ = 0;
};

// The tokens of one side of all sequences.
struct Side {
  int64_t longest = 0, total = 0;
  int64_t least_width = 0, most_width = 0;
  int64_t first = 0, last = 0;  // positions, before a rope's own offset

  // So many sequences that are alike.
  void add(int64_t tokens, int64_t width, int64_t earlier, int64_t sequences) {
    least_width = total == 0 ? width : std::min(least_width, width);
    first = total == 0 ? earlier : std::min(first, earlier);
    last = std::max(last, earlier + tokens - 1);
    longest = std::max(longest, tokens);
    total += sequences * tokens;
    most_width = std::max(most_width, width);
  }
  bool operator==(const Side&) const = default;
};

// How far each pair turns from one position to the next on an axis, in whole turns.
void fill_frequencies(Rope::Kind kind, int pairs, int64_t dim, double* to);

enum class Direction { kForward, kBackward };

// What a call may be besides the whole bidirectional operator: causal, with the keys before each
// sequence (empty where all begin here); of keys alone; or of queries alone, with the keys that the
// state of each sequence has.
struct Form {
  bool causal = false, keys_alone = false;
  std::span<const int64_t> counts_before = {}, keys_in_state = {};
};

// Throws mala::Error where a grid would be larger than GPUs allow.
template <typename T>
struct Plan {
  Plan(const AttentionInputs<T>& inputs, const AttentionOptions& options, Direction direction,
       const DeviceFacts& device, std::span<std::byte> scratch, const Form& form = {});

  // Launches what the passes read besides tensors: the table of sequences, the turns.
  void launch_tables(Launcher& on) const;

  // What a forward writes, or what a backward reads and writes.
  void set_tensors(HeadsView<T> out);
  void set_tensors(HeadsView<const T> out_gradient, const AttentionGradients<T>& gradients);

  // Whether matrices of the heads have to be in global memory.
  bool is_large() const;

  int64_t units() const { return call.sequences * call.kv_heads; }
  PassGrid key_grid() const { return {units(), most_key_parts, 1, key_cluster, key_teams}; }
  PassGrid query_grid() const {
    return {
        call.sequences * call.heads, most_query_parts, 1, query_cluster, query_teams, sweep_blocks};
  }
  PassGrid spread_grid() const { return {units(), std::max(most_key_parts, most_query_parts)}; }

  Call<T> call{};
  int padded = 0;
  int64_t most_key_parts = 0, most_query_parts = 0;
  int key_cluster = 0, query_cluster = 0, key_teams = 0, query_teams = 0;  // see PassGrid
  int sweep_blocks = 1;                                                    // see PassGrid
  bool has_whole_heads = false;   // both passes over a head in one kernel
  bool has_spread_heads = false;  // the same where a head has more blocks than a cluster
  int64_t scratch_bytes = 0;

 private:
  void find_sequences(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                      const Form& form);
  void choose_part_tokens(Direction direction, const DeviceFacts& device);
  void choose_hopper_parts(Direction direction, const DeviceFacts& device);
  bool can_be_whole() const;
  // Of `summed` tokens are summed; those of the other side are taken through the sums.
  bool choose_whole_heads(int wide, const Side& summed, const DeviceFacts& device);
  bool choose_spread_heads(int teams, const Side& summed, const DeviceFacts& device);
  void choose_near_turns(Direction direction);
  bool is_usual() const;
  void choose_sweep_tokens(const DeviceFacts& device);
  bool choose_hopper_sweeps(Direction direction, const DeviceFacts& device, bool has_state);
  void find_parts();
  void place_sums(Arena& arena);
  void place_sweeps(Direction direction, Arena& arena);
  struct TurnRows {
    int64_t first, step, rows, columns;
  };
  const Turn* place_table(const Rope& rope, const Turning& turning, const TurnRows& of,
                          Arena& arena);
  void place_turns(const Rope& rope, Turning& turning, const Side& side, Arena& arena);
  bool needs_operands() const { return is_large() || call.inputs.gate.data; }
  int64_t operand_bytes() const;
  int64_t most_prefixes() const;

  bool is_causal_ = false, keys_alone_ = false;
  bool turns_alike_ = false;  // both sides at each position
  Side queries_, keys_;
  int64_t last_query_slot_ = 0, last_key_slot_ = 0;  // of one head
  std::vector<Sequence> sequences_;                  // empty where all are alike
  TurnTables turns_;
};

}  // namespace mala::gpu
