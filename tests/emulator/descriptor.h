// Matrix descriptors: where the elements of a side of a warpgroup's product lie.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/emulator/products.h"

namespace mala::emulator {

// One side: the left has an outer dimension of rows, the right one of columns, and both are summed
// over the inner one. As stored, either dimension may run along the 16 bytes of a unit.
class Side {
 public:
  Side(uint64_t descriptor, Operand kind, bool transposed, const Where& where);

  // Elements (outer, inner) for `count` values of outer from `first` on, outer by outer.
  std::vector<float> read(int first, int count) const;

 private:
  uint32_t address(int outer, int inner) const;
  float element(const void* unit, int i) const;

  Operand kind_;
  uint32_t start_, leading_, stride_;  // bytes
  int swizzle_;                        // 0: none, else 1, 2, 3 for rows of 128, 64 and 32 bytes
  bool outer_is_fastest_;
  Where where_;
};

}  // namespace mala::emulator
