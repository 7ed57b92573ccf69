// What a warp does with matrices in its registers: ldmatrix, stmatrix and mma.sync.
#include "tests/emulator/ptx.h"
#include "tests/emulator/tensor_core.h"
#include "tests/emulator/warp.h"

namespace mala::emulator {
namespace {

struct MoveArguments {
  uint32_t* registers;
  int count;
  uint64_t row;  // where this lane's row of 16 bytes lies
  bool transposed;
  Where where;
};

// Lanes 8 i to 8 i + 7 name the rows of matrix i.
template <typename Move>
void move_matrices(const Meeting& meeting, Move&& move) {
  const auto& first = arguments_of<MoveArguments>(meeting, 0);
  for (int i = 0; i < first.count; ++i) {
    uint16_t* rows[8];
    for (int row = 0; row < 8; ++row) {
      const auto& lane = arguments_of<MoveArguments>(meeting, 8 * i + row);
      rows[row] = static_cast<uint16_t*>(in_shared(lane.row, 16, lane.where));
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      const int g = lane / 4, t = lane % 4;
      uint32_t& two = arguments_of<MoveArguments>(meeting, lane).registers[i];
      if (first.transposed) {
        move(two, rows[2 * t][g], rows[2 * t + 1][g]);
      } else {
        move(two, rows[g][2 * t], rows[g][2 * t + 1]);
      }
    }
  }
}

void load_all(Meeting& meeting) {
  move_matrices(meeting, [](uint32_t& two, uint16_t& low, uint16_t& high) {
    two = low | static_cast<uint32_t>(high) << 16;
  });
}

void store_all(Meeting& meeting) {
  move_matrices(meeting, [](uint32_t& two, uint16_t& low, uint16_t& high) {
    low = static_cast<uint16_t>(two);
    high = static_cast<uint16_t>(two >> 16);
  });
}

struct MultiplyArguments {
  float* sums;
  const uint32_t *left, *right;
};

// 16 x 8 by 8 x 8 in TF32.
void multiply_all(Meeting& meeting) {
  float left[16][8], sums[16][8];
  RightSide right(Operand::kTf32, 8, 8);
  auto for_each_sum = [&](auto&& visit) {
    for (int lane = 0; lane < kLanes; ++lane)
      for (int i = 0; i < 4; ++i)
        visit(sums[lane / 4 + 8 * (i / 2)][lane % 4 * 2 + i % 2],
              arguments_of<MultiplyArguments>(meeting, lane).sums[i]);
  };
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto& mine = arguments_of<MultiplyArguments>(meeting, lane);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) left[g + 8 * (i % 2)][t + 4 * (i / 2)] = from_tf32(mine.left[i]);
    for (int i = 0; i < 2; ++i) right.set(t + 4 * i, g, from_tf32(mine.right[i]));
  }
  for_each_sum([](float& sum, float& in_lane) { sum = in_lane; });
  for (int row = 0; row < 16; ++row) add_row(left[row], right, sums[row]);
  for_each_sum([](float& sum, float& in_lane) { in_lane = sum; });
}

}  // namespace

void load_matrices(uint32_t* to, int count, uint64_t row, bool transposed, const Where& where) {
  MoveArguments arguments{to, count, row, transposed, where};
  meet_all("ldmatrix", &arguments, load_all, where);
}

void store_matrices(uint32_t* from, int count, uint64_t row, bool transposed, const Where& where) {
  MoveArguments arguments{from, count, row, transposed, where};
  meet_all("stmatrix", &arguments, store_all, where);
}

void multiply_tf32(float* sums, const uint32_t* left, const uint32_t* right, const Where& where) {
  MultiplyArguments arguments{sums, left, right};
  meet_all("mma.sync", &arguments, multiply_all, where);
}

}  // namespace mala::emulator
