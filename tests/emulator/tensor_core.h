// Sums of products as tensor cores form them.
#pragma once

#include <vector>

#include "tests/emulator/ptx.h"

namespace mala::emulator {

// The right side of a product: (depth, columns), numbers and their exponents.
struct RightSide {
  RightSide(Operand of, int rows, int width)
      : kind(of),
        depth(rows),
        columns(width),
        numbers(static_cast<size_t>(rows * width)),
        exponents(numbers.size()) {}

  void set(int k, int column, float x);

  Operand kind;
  int depth, columns;
  bool finite = true;
  std::vector<float> numbers;
  std::vector<int> exponents;
};

// sums (columns) += left (depth) times the right side. Products are exact. They and the sum so far
// are cut off at the same bit, so far below the largest of their exponents; what is left is added
// exactly, and cut off once more to what a float holds.
void add_row(const float* left, const RightSide& right, float* sums);

}  // namespace mala::emulator
