// Tar archives made by hand, so that every field can lie.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

namespace mala::test {

struct TarHeader {
  std::string name;
  uint64_t size = 0;
  char type = '0';
  std::string magic = std::string("ustar\0", 6) + "00";
  std::string prefix{};

  std::string text() const {
    std::string block(512, '\0');
    const auto put = [&](size_t at, const std::string& field) {
      block.replace(at, field.size(), field);
    };
    char digits[16];
    std::snprintf(digits, sizeof digits, "%011llo", static_cast<unsigned long long>(size));
    put(0, name.substr(0, 100));
    put(124, digits);
    block[156] = type;
    put(257, magic);
    put(345, prefix);
    return with_checksum(block);
  }

  static std::string with_checksum(std::string block) {
    block.replace(148, 8, 8, ' ');
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    char digits[16];
    std::snprintf(digits, sizeof digits, "%06o", sum);
    block.replace(148, 7, std::string(digits) + '\0');
    return block;
  }
};

inline std::string padded(std::string data) {
  data.resize((data.size() + 511) / 512 * 512);
  return data;
}

inline std::string tar_file(const std::string& name, const std::string& data, char type = '0') {
  return TarHeader{.name = name, .size = data.size(), .type = type}.text() + padded(data);
}

inline std::string tar_end() { return std::string(1024, '\0'); }

}  // namespace mala::test
