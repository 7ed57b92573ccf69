// Philox, and the distributions that augmentations ask for.
#include "mala/data/random.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace mala::data {
namespace {

uint32_t high(uint64_t product) { return static_cast<uint32_t>(product >> 32); }
uint32_t low(uint64_t product) { return static_cast<uint32_t>(product); }

}  // namespace

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0], b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {high(b) ^ counter[1] ^ key[0], low(b), high(a) ^ counter[3] ^ key[1], low(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

Random::Random(uint64_t seed, int64_t epoch, Use use, int64_t place)
    : counter_{0, low(static_cast<uint64_t>(place)),
               (high(static_cast<uint64_t>(place)) & 0xFFFFu) | static_cast<uint32_t>(use) << 16,
               static_cast<uint32_t>(epoch)},
      key_{low(seed), high(seed)} {}

uint32_t Random::bits() {
  if (used_ == words_.size()) {
    words_ = philox(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return words_[used_++];
}

double Random::uniform() {
  const uint64_t upper = bits() >> 5, lower = bits() >> 6;
  return static_cast<double>(upper << 26 | lower) * 0x1p-53;
}

double Random::uniform(double from, double to) { return from + (to - from) * uniform(); }

bool Random::chance(double probability) { return uniform() < probability; }

int64_t Random::below(int64_t count) {
  const auto n = static_cast<uint64_t>(count);
  // The last, incomplete round of 0 to n - 1 would favour small numbers.
  const uint64_t end = std::numeric_limits<uint64_t>::max() / n * n;
  while (true) {
    const uint64_t upper = bits(), x = upper << 32 | bits();
    if (x < end) return static_cast<int64_t>(x % n);
  }
}

// Box and Muller: two at a time.
double Random::normal() {
  if (has_spare_) {
    has_spare_ = false;
    return spare_normal_;
  }
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  const double angle = 2.0 * std::numbers::pi * uniform();
  spare_normal_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

// Marsaglia and Tsang (2000); a shape below 1 is that of shape + 1, shrunk.
double Random::gamma(double shape) {
  if (shape < 1.0) {
    const double larger = gamma(shape + 1.0);
    return larger * std::pow(1.0 - uniform(), 1.0 / shape);
  }
  const double d = shape - 1.0 / 3.0, c = 1.0 / std::sqrt(9.0 * d);
  while (true) {
    const double x = normal(), root = 1.0 + c * x, v = root * root * root;
    if (v > 0.0 && std::log(1.0 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      return d * v;
    }
  }
}

double Random::beta(double a, double b) {
  const double x = gamma(a), y = gamma(b);
  return x + y > 0.0 ? x / (x + y) : 0.5;  // both vanish for tiny shapes alone
}

}  // namespace mala::data
