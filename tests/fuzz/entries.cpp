// Runs the readers on hostile bytes and touches all that they give back. Aborts when that is not
// sound, which fuzzers and tests alike take for a finding.
#include "tests/fuzz/entries.h"

#include <cstdlib>

#include "mala/core/error.h"
#include "mala/data/image/decode.h"
#include "mala/io/pth.h"
#include "mala/io/safetensors.h"

namespace mala::fuzz {
namespace {

void require(bool sound) {
  if (!sound) std::abort();
}

// Reads every byte, so that a sanitizer sees those that are not there.
void touch(Bytes bytes) {
  unsigned sum = 0;
  for (const std::byte byte : bytes) sum += static_cast<unsigned>(byte);
  [[maybe_unused]] static volatile unsigned kept;
  kept = sum;
}

void check_weights(const io::Weights& weights) {
  for (size_t i = 0; i < weights.arrays.size(); ++i) {
    const io::Array& array = weights.arrays[i];
    require(i == 0 || weights.arrays[i - 1].name < array.name);
    require(weights.find(array.name) == &array);
    require(io::bytes_of(array.shape, array.type) == array.bytes.size());
    touch(array.bytes);
  }
}

template <typename Read>
void try_reading(const Read& read) {
  try {
    read();
  } catch (const Error&) {
    // Refused, as most of what a fuzzer makes up should be.
  }
}

}  // namespace

void try_safetensors(Bytes bytes) {
  try_reading([&] { check_weights(io::parse_safetensors(bytes, "file")); });
}

void try_pth(Bytes bytes) {
  for (const io::Copy copy : {io::Copy::kTrained, io::Copy::kAveraged}) {
    try_reading([&] { check_weights(io::parse_pth(bytes, "file", copy)); });
  }
}

void try_image(Bytes bytes) {
  constexpr int64_t kMostPixels = 1 << 16;  // larger pictures only take longer
  try_reading([&] {
    const data::Image image = data::decode_image(bytes, "file", {.max_pixels = kMostPixels});
    const auto [width, height] = image.size;
    require(width > 0 && height > 0 && width * height <= kMostPixels);
    require(image.pixels.size() == static_cast<size_t>(width * height * data::kChannels));
    touch(std::as_bytes(std::span(image.pixels)));
  });
}

}  // namespace mala::fuzz
