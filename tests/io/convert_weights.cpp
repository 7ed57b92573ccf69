// Reads weights and writes them as safetensors, for the Python tests to compare.
#include <cstdio>
#include <cstring>
#include <exception>

#include "mala/io/read_weights.h"

int main(int argc, char** argv) try {
  if (argc < 3) return 2;
  const bool averaged = argc > 3 && std::strcmp(argv[3], "averaged") == 0;
  using mala::io::Copy;
  const mala::io::Weights weights =
      mala::io::read_weights(argv[1], averaged ? Copy::kAveraged : Copy::kTrained);
  mala::io::write_safetensors(argv[2], weights.arrays, weights.metadata);
  for (const std::string& name : weights.skipped) std::printf("skipped %s\n", name.c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
