// Names the machine, the compiler and the roofs that the figures of a run depend on.
#include <cstdio>
#include <ctime>
#include <fstream>

#include "bench/support/report.h"
#include "mala/core/error.h"
#include "mala/core/parallel.h"
#include "mala/kernels/cpu/isa.h"

namespace mala::bench {

namespace {

std::string processor() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", value);
  return text;
}

}  // namespace

std::vector<std::string> describe(const Setting& setting) {
  const Roof& roof = setting.roof;
  return {
      str("date: ", today(), ", commit: ", setting.commit),
      str("machine: ", processor(), ", ", max_workers(), " threads, ", cpu::current_isa()),
      str("compiler: ", MALA_BENCH_COMPILER, "; torch ", MALA_BENCH_TORCH),
      str("multiply-add peak: ", rounded(roof.fma_gflops), " GFLOP/s float32"),
      str("copy: ", rounded(roof.copy_gbytes), " GB/s, read and written"),
      str("other programs: ", rounded(setting.others), " cores busy meanwhile"),
  };
}

}  // namespace mala::bench
