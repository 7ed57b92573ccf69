// Random numbers by place: each place of each epoch has a stream of its own, whoever asks first.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace mala::data {

// Four random words for a counter and a key: Philox 4x32 with ten rounds (Salmon et al., 2011).
std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// What a stream is for; streams of different uses have nothing in common.
enum class Use : uint16_t { kOrder = 1, kPicture = 2, kMix = 3, kReplacement = 4 };

class Random {
 public:
  // `epoch` below 2^32 and `place` below 2^48, both from 0 on.
  Random(uint64_t seed, int64_t epoch, Use use, int64_t place = 0);

  uint32_t bits();
  double uniform();                         // 0 <= x < 1
  double uniform(double low, double high);  // low <= x < high
  bool chance(double probability);
  int64_t below(int64_t count);  // 0 to count - 1, count > 0
  double normal();               // mean 0, deviation 1
  double beta(double a, double b);

 private:
  double gamma(double shape);

  std::array<uint32_t, 4> counter_;
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> words_{};
  size_t used_ = 4;
  double spare_normal_ = 0.0;
  bool has_spare_ = false;
};

}  // namespace mala::data
