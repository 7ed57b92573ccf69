// Both CRC-32s, eight bytes a step: hundreds of megabytes of weights pass in a fraction of a
// second.
#include "mala/io/crc32.h"

#include <array>

namespace mala::io {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

// tables[k][b] is what the byte b does to the sum after k further bytes of zeros.
constexpr Tables make_tables(uint32_t polynomial) {
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1) ^ ((sum & 1) ? polynomial : 0u);
    tables[0][byte] = sum;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr Tables kZip = make_tables(0xEDB88320u);
constexpr Tables kCastagnoli = make_tables(0x82F63B78u);

uint32_t sum_of(Bytes bytes, const Tables& tables) {
  uint32_t sum = ~0u;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    const uint64_t word = load_le<uint64_t>(bytes, i) ^ sum;
    sum = 0;
    for (size_t k = 0; k < 8; ++k) sum ^= tables[7 - k][(word >> (8 * k)) & 255];
  }
  for (; i < bytes.size(); ++i) {
    sum = (sum >> 8) ^ tables[0][(sum ^ static_cast<uint32_t>(bytes[i])) & 255];
  }
  return ~sum;
}

}  // namespace

uint32_t crc32(Bytes bytes) { return sum_of(bytes, kZip); }
uint32_t crc32c(Bytes bytes) { return sum_of(bytes, kCastagnoli); }

}  // namespace mala::io
