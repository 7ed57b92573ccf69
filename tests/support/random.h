// Random numbers that are the same on every machine: a fixed generator, and our own ranges.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace mala::test {

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}

  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(bits_() >> 11) * 0x1p-53;
  }

  // Both ends included.
  int64_t integer(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits_() % static_cast<uint64_t>(high - low + 1));
  }

  bool coin() { return integer(0, 1) == 1; }

  template <typename T>
  T pick(const std::vector<T>& from) {
    return from[integer(0, static_cast<int64_t>(from.size()) - 1)];
  }

 private:
  std::mt19937_64 bits_;
};

}  // namespace mala::test
