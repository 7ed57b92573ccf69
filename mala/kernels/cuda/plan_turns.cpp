// The part of a plan that tells how tokens turn: tables in the scratch, or frequencies of which
// kernels make their own.
#include <cmath>
#include <numbers>

#include "mala/kernels/checks.h"
#include "mala/kernels/cuda/plan.h"
#include "mala/kernels/cuda/shape.h"

namespace mala::gpu {
namespace {

// The most rows of a table of turns that a block makes itself, of a grid: see near_turning().
int64_t near_rows(const Side& side, int64_t last, int64_t part) {
  const int64_t last_row = last / side.least_width;
  if (side.least_width < side.most_width || last_row >= 2 * side.least_width) {
    return std::max(part / side.least_width + 2 + side.most_width, 2 * side.most_width);
  }
  return std::max(side.most_width, last_row + 1);
}

// The longest tables that serve positions directly, which caches then hold.
constexpr int64_t kMostGridRows = 2048, kMostLineRows = 256;

// How far a pair turns from one position to the next, in whole turns.
double turns_per_position(Rope::Kind kind, int pair, int64_t dim) {
  const double exponent = kind == Rope::Kind::kLine ? 2.0 * pair / static_cast<double>(dim)
                                                    : pair / static_cast<double>(dim / 4 - 1);
  return std::pow(10000.0, -exponent) / (2 * std::numbers::pi);
}

}  // namespace

// The last ones are kept: they cost more than a launch.
void fill_frequencies(Rope::Kind kind, int pairs, int64_t dim, double* to) {
  struct Kept {
    Rope::Kind kind = Rope::Kind::kNone;
    int64_t dim = 0;
    double values[TurnTables::kMaxPairs];
  };
  thread_local Kept kept;
  if (kept.kind != kind || kept.dim != dim) {
    for (int i = 0; i < pairs; ++i) kept.values[i] = turns_per_position(kind, i, dim);
    kept.kind = kind;
    kept.dim = dim;
  }
  std::copy_n(kept.values, pairs, to);
}

// Entries from position `first` on, `step` apart, of `rows` rows and then of `columns` columns.
template <typename T>
const Turn* Plan<T>::place_table(const Rope& rope, const Turning& turning, const TurnRows& of,
                                 Arena& arena) {
  const bool of_keys = &turning == &call.k_turning;
  Turn* to = arena.take<Turn>((of.rows + of.columns) * turning.axis_pairs);
  auto add = [&](int64_t row, int64_t first, int64_t rows) {
    turns_.tables[turns_.count++] = {.to = to ? to + row * turning.axis_pairs : nullptr,
                                     .first = first,
                                     .step = of.step,
                                     .rows = rows,
                                     .pairs = turning.axis_pairs,
                                     .of_keys = of_keys,
                                     .cos = rope.cos,
                                     .sin = rope.sin,
                                     .stride = rope.table_stride};
  };
  add(0, of.first, of.rows);
  if (of.columns > 0) add(of.rows, 0, of.columns);
  return to;
}

template <typename T>
void Plan<T>::place_turns(const Rope& rope, Turning& turning, const Side& side, Arena& arena) {
  const bool is_grid = rope.kind == Rope::Kind::kGrid;
  turning.turns = rope.kind != Rope::Kind::kNone;
  turning.by_table = rope.kind == Rope::Kind::kTable;
  turning.offset = turning.by_table ? 0 : rope.offset;
  turning.pairs = static_cast<int>(call.layout.dim / 2);
  turning.axis_pairs = turning.pitch = is_grid ? turning.pairs / 2 : turning.pairs;
  if (!turning.turns) return;

  if (!turning.by_table) {
    fill_frequencies(rope.kind, turning.axis_pairs, call.layout.dim,
                     &turning == &call.k_turning ? turns_.k_frequencies : turns_.q_frequencies);
  }
  const int64_t first = turning.offset + side.first, last = turning.offset + side.last;
  const int64_t first_row = is_grid ? first / side.most_width : first;
  const int64_t rows = (is_grid ? last / side.least_width : last) - first_row + 1;
  const int64_t columns = is_grid ? std::min(side.most_width - 1, last) + 1 : 0;
  constexpr int64_t kMostEntries = (int64_t{1} << 31) - 1;  // that kernels count
  check(!turning.by_table || rows <= kMostEntries / turning.axis_pairs, "attention", "a table for ",
        rows, " tokens of ", turning.axis_pairs,
        " pairs has more entries than a GPU kernel counts, ", kMostEntries,
        "; use rope line or grid, or split the tokens");
  // Sweeps turn tokens by their places in a tile, and need the first positions.
  const bool of_sweeps = is_causal_ && !is_grid;
  if (turning.by_table ||
      (!of_sweeps && rows + columns <= (is_grid ? kMostGridRows : kMostLineRows))) {
    turning.first_row = first_row;
    turning.rests = place_table(rope, turning, {first_row, 1, rows, columns}, arena);
    turning.columns = static_cast<int>(rows - 1) * turning.axis_pairs;
    return;
  }
  turning.composed = true;
  const int64_t first_block = first_row / kTurnBlock;
  const int64_t blocks = (first_row + rows - 1) / kTurnBlock - first_block + 1;
  turning.first_row = first_block * kTurnBlock;
  turning.rests = place_table(rope, turning, {0, 1, kTurnBlock, 0}, arena);
  turning.blocks =
      place_table(rope, turning,
                  {turning.first_row, kTurnBlock, blocks, divide_up(columns, kTurnBlock)}, arena);
  turning.columns = static_cast<int>(blocks - 1) * turning.axis_pairs;
}

// Whether passes can make their tables of turns in shared memory, from frequencies.
template <typename T>
void Plan<T>::choose_near_turns(Direction direction) {
  auto in_two_parts = [](double frequency) -> Frequency {
    const auto first = static_cast<float>(frequency);
    return {first, static_cast<float>(frequency - first)};
  };
  auto choose = [&](Turning& turning, const Side& side, int64_t part, int64_t bytes,
                    const double* from, Frequency* to) {
    const bool in_grid = turning.axis_pairs < turning.pairs;
    const int64_t last = turning.offset + side.last;
    turning.near = turning.turns && !turning.by_table && !turning.composed &&
                   turning.axis_pairs <= kMostNearPairs && last < kMostNearPosition &&
                   side.most_width <= kMostNearPosition &&
                   (in_grid ? near_rows(side, last, part) : part) * near_pitch(turning.axis_pairs) *
                           static_cast<int64_t>(sizeof(Turn)) <=
                       bytes;
    for (int i = 0; turning.near && i < turning.axis_pairs; ++i) to[i] = in_two_parts(from[i]);
  };
  const bool forward = direction == Direction::kForward;
  if (query_cluster > 0) {
    // The gradient of a gate is found by the forward's pass over queries; passes that are one
    // kernel have one place for turns.
    int of_gradients = kNearBytesOfQueries;
    if (call.inputs.gate.data) of_gradients = std::min(of_gradients, near_bytes_forward(padded));
    if (has_whole_heads || has_spread_heads) {
      of_gradients = std::min(of_gradients, near_bytes_of_keys(padded, key_teams));
    }
    choose(call.q_turning, queries_, call.q_part_tokens,
           forward ? near_bytes_forward(padded, query_teams) : of_gradients, turns_.q_frequencies,
           call.q_frequencies);
  }
  if (key_cluster > 0) {
    choose(call.k_turning, keys_, call.k_part_tokens,
           forward ? near_bytes_forward(padded, key_teams) : near_bytes_of_keys(padded, key_teams),
           call.turn_alike ? turns_.q_frequencies : turns_.k_frequencies, call.k_frequencies);
  }
}

#define MALA_INSTANTIATE(T)                                                       \
  template void Plan<T>::place_turns(const Rope&, Turning&, const Side&, Arena&); \
  template void Plan<T>::choose_near_turns(Direction)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::gpu
