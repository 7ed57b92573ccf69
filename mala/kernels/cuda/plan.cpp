// Splits tokens, lays out the scratch and gathers what kernels are told.
#include "mala/kernels/cuda/plan.h"

#include <cmath>

#include "mala/core/error.h"
#include "mala/kernels/cuda/parts.h"
#include "mala/kernels/cuda/shape.h"
#include "mala/kernels/rule.h"

namespace mala::gpu {
namespace {

Longest share_of(const Side& side, int64_t heads) { return {side.longest, side.total * heads}; }

// Tokens of a tile of each pass, and blocks of it that a multiprocessor holds.
struct PassSize {
  int64_t tokens, blocks;
};
struct PassSizes {
  PassSize keys, queries;
};
template <typename T>
PassSizes pass_sizes(int padded, Direction direction) {
  const BlocksAtOnce at_once = blocks_at_once(padded);
  return with_dim<T>(padded, [&](auto dim) -> PassSizes {
    if (direction == Direction::kForward) {
      return {{SumShape<T, dim()>::kTokens, at_once.sum_keys},
              {RowShape<T, dim(), 1>::kTokens, at_once.apply_queries}};
    }
    return {{RowShape<T, dim(), 2>::kTokens, at_once.key_gradients},
            {kGradientTokens<T, dim()>, at_once.query_gradients}};
  });
}

// Whether tokens of two sides with as many tokens turn alike.
bool turn_alike(const Rope& a, const Rope& b) {
  return a.kind == b.kind && a.offset == b.offset && a.width == b.width && a.cos == b.cos &&
         a.sin == b.sin && a.table_stride == b.table_stride;
}

template <typename T>
Sequence sequence_at(const AttentionInputs<T>& inputs, const AttentionOptions& options, size_t i) {
  const Lengths& lengths = inputs.lengths;
  Sequence one{.q_count = inputs.q.tokens,
               .k_count = inputs.k.tokens,
               .q_width = options.q_rope.width,
               .k_width = options.k_rope.width};
  if (!lengths.q_offsets.empty()) {
    one.q_first = lengths.q_offsets[i];
    one.q_count = lengths.q_offsets[i + 1] - one.q_first;
    one.k_first = lengths.k_offsets[i];
    one.k_count = lengths.k_offsets[i + 1] - one.k_first;
  } else {
    one.batch = static_cast<int64_t>(i);
    if (!lengths.key_counts.empty()) one.k_count = lengths.key_counts[i];
  }
  if (!lengths.q_widths.empty()) one.q_width = lengths.q_widths[i];
  if (!lengths.k_widths.empty()) one.k_width = lengths.k_widths[i];
  return one;
}

bool all_alike(const Lengths& lengths) {
  return lengths.key_counts.empty() && lengths.q_offsets.empty() && lengths.q_widths.empty() &&
         lengths.k_widths.empty();
}

template <typename T>
bool has_vectors(const HeadsView<T>& view) {
  constexpr int64_t kBytes = 16;
  auto even = [](int64_t stride) { return stride * static_cast<int64_t>(sizeof(T)) % kBytes == 0; };
  return view.data && view.dim_stride == 1 && even(view.token_stride) && even(view.head_stride) &&
         even(view.batch_stride) && reinterpret_cast<uintptr_t>(view.data) % kBytes == 0;
}

}  // namespace

template <typename T>
Plan<T>::Plan(const AttentionInputs<T>& inputs, const AttentionOptions& options,
              Direction direction, const DeviceFacts& device, std::span<std::byte> scratch,
              const Form& form) {
  call.inputs = inputs;
  call.rule = options.rule;
  call.norm = norm_of(options, form.causal);
  call.feature = options.feature;
  call.key_mean = options.key_mean;
  const int64_t dim = inputs.q.dim, value_dim = inputs.v.dim;
  call.scale =
      static_cast<float>(options.scale.value_or(1.0 / std::sqrt(static_cast<double>(dim))));
  call.eps = static_cast<float>(options.eps);
  call.heads = inputs.q.heads;
  call.kv_heads = inputs.k.heads;
  call.group = call.heads / call.kv_heads;
  call.layout = {dim, value_dim};
  padded = padded_dim<T>(std::max(dim, value_dim));
  call.vectors.q = has_vectors(inputs.q);
  call.vectors.k = has_vectors(inputs.k);
  call.vectors.v = has_vectors(inputs.v);
  call.vectors.local = has_vectors(inputs.local);
  call.vectors.gate = has_vectors(inputs.gate);
  find_sequences(inputs, options, form);
  is_causal_ = form.causal;
  keys_alone_ = form.keys_alone;

  Arena arena(scratch);
  call.table = arena.take<Sequence>(static_cast<int64_t>(sequences_.size()));
  if (sequences_.empty()) call.table = nullptr;
  place_turns(options.q_rope, call.q_turning, queries_, arena);
  turns_alike_ = turn_alike(options.q_rope, options.k_rope);
  call.turn_alike = turns_alike_ && queries_ == keys_;
  if (call.turn_alike) {
    call.k_turning = call.q_turning;
  } else {
    place_turns(options.k_rope, call.k_turning, keys_, arena);
  }
  if (form.causal) {
    const bool has_state = !form.counts_before.empty();
    if (!choose_hopper_sweeps(direction, device, has_state)) choose_sweep_tokens(device);
    if (device.has_wgmma && is_usual()) key_cluster = key_teams = 1;  // of sums of parts
  } else {
    choose_part_tokens(direction, device);
  }
  // Causal calls have only sums of keys by warpgroups, of the forward's kind.
  choose_near_turns(form.causal ? Direction::kForward : direction);
  find_parts();
  if (form.causal) {
    check_parts(call.sequences * call.heads, std::max(most_query_parts, most_key_parts));
    place_sweeps(direction, arena);
  } else {
    place_sums(arena);
  }
  scratch_bytes = arena.bytes_needed();
}

template <typename T>
void Plan<T>::place_sums(Arena& arena) {
  const int64_t size = call.layout.size();
  const int64_t slots = std::max(last_key_slot_ * call.kv_heads, last_query_slot_ * call.heads);
  call.parts = arena.take<float>(slots * size);
  call.gradient = arena.take<float>(units() * size);
  call.operands = arena.take<std::byte>(operand_bytes());
}

template <typename T>
void Plan<T>::place_sweeps(Direction direction, Arena& arena) {
  const int64_t size = call.layout.size();
  const bool backward = direction == Direction::kBackward;
  const int64_t key_slots = last_key_slot_ * call.kv_heads;
  const int64_t query_slots = backward ? last_query_slot_ * call.heads : 0;
  call.parts = arena.take<float>(std::max(key_slots, query_slots) * size);
  call.prefixes = arena.take<float>(most_prefixes() * call.kv_heads * size);
  if (!backward) return;
  call.suffixes = arena.take<float>(last_query_slot_ * call.kv_heads * size);
  call.token_weights =
      arena.take<SweepWeights>(call.inputs.q.batch * call.inputs.q.tokens * call.heads);
}

// Where the output turns out to be unfit for warpgroups, queries have as many parts as keys.
template <typename T>
int64_t Plan<T>::most_prefixes() const {
  auto of = [&](const Sequence& one) { return divide_up(one.q_count, call.k_part_tokens); };
  if (sequences_.empty()) return std::max(last_query_slot_, call.sequences * of(call.alike));
  int64_t all = 0;
  for (const Sequence& one : sequences_) all += of(one);
  return std::max(last_query_slot_, all);
}

template <typename T>
void Plan<T>::find_sequences(const AttentionInputs<T>& inputs, const AttentionOptions& options,
                             const Form& form) {
  const Lengths& lengths = inputs.lengths;
  const size_t count = lengths.q_offsets.empty() ? static_cast<size_t>(inputs.q.batch)
                                                 : lengths.q_offsets.size() - 1;
  call.sequences = static_cast<int64_t>(count);
  check_heads(call.sequences, call.heads);
  call.alike = sequence_at(inputs, options, 0);
  const bool is_listed = !form.counts_before.empty() || !form.keys_in_state.empty();
  for (size_t i = 0; (is_listed || !all_alike(lengths)) && i < count; ++i) {
    Sequence one = sequence_at(inputs, options, i);
    if (!form.counts_before.empty()) one.earlier = form.counts_before[i];
    if (!form.keys_in_state.empty()) one.k_count = form.keys_in_state[i];
    sequences_.push_back(one);
  }
  auto add = [&](const Sequence& one, int64_t sequences) {
    queries_.add(one.q_count, one.q_width, one.earlier, sequences);
    keys_.add(one.k_count, one.k_width, one.earlier, sequences);
  };
  for (const Sequence& one : sequences_) add(one, 1);
  if (sequences_.empty()) add(call.alike, call.sequences);
}

template <typename T>
void Plan<T>::choose_part_tokens(Direction direction, const DeviceFacts& device) {
  const PassSizes sizes = pass_sizes<T>(padded, direction);
  call.q_part_tokens = part_tokens(share_of(queries_, call.heads), sizes.queries.tokens,
                                   sizes.queries.blocks * device.multiprocessors);
  call.k_part_tokens = part_tokens(share_of(keys_, call.kv_heads), sizes.keys.tokens,
                                   sizes.keys.blocks * device.multiprocessors);
  if (device.has_wgmma && is_usual()) choose_hopper_parts(direction, device);
}

// Whether the kernels for Hopper know all that a call asks for, as far as its inputs tell.
template <typename T>
bool Plan<T>::is_usual() const {
  const Vectors& has = call.vectors;
  const bool local = call.inputs.local.data, gate = call.inputs.gate.data;
  const bool has_keys = call.inputs.k.data;  // else there is a state in their place
  return kSpecialType<T> && padded <= 128 && call.layout.dim == padded &&
         call.layout.value_dim == padded && call.feature == Feature::kElu1 && has.q &&
         (!has_keys || (has.k && has.v)) && (!local || has.local) && (!gate || has.gate) &&
         how_turned(call) != Turned::kSomehow;
}

// Short parts fill the device; what a part needs besides its tokens is as much as some 60 of them.
template <typename T>
void Plan<T>::choose_sweep_tokens(const DeviceFacts& device) {
  constexpr int64_t kLeast = 128, kMost = 512;
  const bool runs = padded <= 128;
  check(runs || queries_.longest <= kMostParts * kTileTokens, "attention", "a causal sequence of ",
        queries_.longest, " tokens in heads beyond 128 is more than a GPU takes at once, ",
        kMostParts * kTileTokens, "; give it in chunks with a state, or use smaller heads");
  const int64_t wanted =
      part_tokens(share_of(queries_, call.heads), kTileTokens, 6 * device.multiprocessors);
  const int64_t least = std::max<int64_t>(kLeast, divide_up(queries_.longest, kMostParts));
  const int64_t tokens = runs ? std::clamp(wanted, least, std::max(kMost, least)) : kTileTokens;
  call.q_part_tokens = call.k_part_tokens = divide_up(tokens, kTileTokens) * kTileTokens;
}

// Sweeps by warpgroups, where there are such: heads of 64 that turn along a line, or not at all,
// where the forward, which also finds the gradient of a gate, takes both sums of keys for one, as
// those of a state may not be; in the backward with a head of keys for each of queries.
template <typename T>
bool Plan<T>::choose_hopper_sweeps(Direction direction, const DeviceFacts& device, bool has_state) {
  constexpr int64_t kMostPositions = (int64_t{1} << 31) - 1;  // that they count
  const Turned how = how_turned(call);
  const bool forward = direction == Direction::kForward;
  const bool runs_forward = forward || call.inputs.gate.data;
  if (!device.has_wgmma || !is_usual() || padded != 64 || (!forward && call.group > 1) ||
      (how != Turned::kLine && how != Turned::kNot) || !turns_alike_ ||
      (runs_forward && how == Turned::kNot && has_state) ||
      queries_.last + call.q_turning.offset >= kMostPositions) {
    return false;
  }
  const int64_t longest = std::max<int64_t>(1, queries_.longest);
  const int64_t heads = std::max<int64_t>(1, queries_.total * call.heads / longest);
  const int64_t tiles = divide_up(longest, kHopperTile);
  if (forward) {
    const ForwardParts parts = causal_forward_parts(heads, tiles, device, kSweepTeamsOnHopper);
    call.q_part_tokens = parts.tokens;
    call.k_part_tokens = parts.summed;
    sweep_blocks = parts.blocks;
  } else {
    call.q_part_tokens = call.k_part_tokens =
        sweep_part_tokens(heads, tiles, int64_t{kGradientTeamsOnHopper} * device.multiprocessors);
  }
  query_cluster = 1;
  return true;
}

template <typename T>
void Plan<T>::find_parts() {
  last_query_slot_ = last_key_slot_ = 0;
  // Clusters are whole, although some of their parts may be empty.
  auto parts = [](int64_t tokens, int64_t part_tokens, int cluster) {
    const int64_t least = std::max(cluster, 1);
    return divide_up(divide_up(tokens, part_tokens), least) * least;
  };
  most_query_parts = parts(queries_.longest, call.q_part_tokens, query_cluster);
  most_key_parts = parts(keys_.longest, call.k_part_tokens, key_cluster);
  auto split = [&](Sequence& one) {
    one.q_parts = parts(one.q_count, call.q_part_tokens, query_cluster);
    one.k_parts = parts(one.k_count, call.k_part_tokens, key_cluster);
  };
  split(call.alike);
  for (Sequence& one : sequences_) {
    split(one);
    one.q_parts_before = last_query_slot_;
    one.k_parts_before = last_key_slot_;
    last_query_slot_ += one.q_parts;
    last_key_slot_ += one.k_parts;
  }
  if (sequences_.empty()) {
    last_query_slot_ = call.sequences * most_query_parts;
    last_key_slot_ = call.sequences * most_key_parts;
  }
}

// Matrices of each unit in global memory: where shared memory is too small, and for a gate, whose
// gradient needs one more.
template <typename T>
bool Plan<T>::is_large() const {
  return with_dim<T>(padded, [](auto dim) { return !kSharedRight<T, dim()>; });
}

template <typename T>
int64_t Plan<T>::operand_bytes() const {
  return needs_operands() ? units() * 2 * padded * padded * 4 : 0;
}

template <typename T>
void Plan<T>::launch_tables(Launcher& on) const {
  if (!sequences_.empty()) {
    launch_write_sequences(on, sequences_.data(), static_cast<int64_t>(sequences_.size()),
                           const_cast<Sequence*>(call.table));
  }
  // An output may have turned out to be unfit for the kernels that make their own.
  const bool near =
      call.q_turning.near && call.k_turning.near && key_cluster > 0 && query_cluster > 0;
  if (turns_.count > 0 && !near) launch_fill_turns(on, turns_);
}

template <typename T>
void Plan<T>::set_tensors(HeadsView<const T> out_gradient, const AttentionGradients<T>& gradients) {
  call.out_gradient = out_gradient;
  call.gradients = gradients;
  call.vectors.out_gradient = has_vectors(out_gradient);
  call.vectors.d_query = has_vectors(gradients.q);
  call.vectors.d_key = has_vectors(gradients.k);
  call.vectors.d_value = has_vectors(gradients.v);
  call.vectors.d_local = has_vectors(gradients.local);
  call.vectors.d_gate = has_vectors(gradients.gate);
  const Vectors& has = call.vectors;
  auto unfit = [](const auto& view, bool vectors) { return view.data && !vectors; };
  const bool bad_queries = unfit(out_gradient, has.out_gradient) || unfit(gradients.q, has.d_query);
  const bool bad_keys = unfit(gradients.k, has.d_key) || unfit(gradients.v, has.d_value);
  const bool bad_tail = unfit(gradients.local, has.d_local) || unfit(gradients.gate, has.d_gate);
  if (bad_queries || bad_tail || (is_causal_ && bad_keys)) query_cluster = 0;
  if (is_causal_) return;  // parts are the same, and sums of keys write none of them
  if (bad_keys) key_cluster = 0;
  if (query_cluster == 0 || key_cluster == 0) has_whole_heads = has_spread_heads = false;
  find_parts();
}

template <typename T>
void Plan<T>::set_tensors(HeadsView<T> out) {
  call.out = out;
  call.vectors.out = has_vectors(out);
  if (call.vectors.out) return;
  query_cluster = 0;
  if (is_causal_) call.q_part_tokens = call.k_part_tokens;
  sweep_blocks = 1;
  has_whole_heads = has_spread_heads = false;
  find_parts();
}

template struct Plan<float>;
template struct Plan<BFloat16>;
template struct Plan<Float16>;

}  // namespace mala::gpu
