// Products of a warpgroup that are on their way, kept for each of its warps.
#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "tests/emulator/ptx.h"

namespace mala::emulator {

// Accumulators of a warp, lane after lane, that products on their way add to.
struct Sums {
  int columns = 0, in_flight = 0;
  std::vector<float*> at{};
  std::vector<float> values{};  // what they will be
};

struct Product {
  ProductRequest request{};
  std::vector<float> left{};  // 16 rows, where they were in registers
  std::shared_ptr<Sums> sums{};
};

struct WarpProducts {
  std::vector<std::shared_ptr<Sums>> sums{};
  std::vector<Product> open{};                // in no group yet
  std::deque<std::vector<Product>> groups{};  // the oldest first
};

}  // namespace mala::emulator
