// Measures the roofs, with multiply-adds for the best instruction set that the machine has.
#include "bench/support/roof.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/support/roof.cpp"
#include "hwy/foreach_target.h"  // re-includes this file once per target
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace mala::bench::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Fourteen sums that do not wait for one another hide the latency of the multiply-adds, and with
// the factor they still fit into sixteen registers. They start apart, or the compiler would see
// that one sum is enough. Returns the flop, and through `sink` what keeps the work alive.
double multiply_add(int64_t rounds, float factor, float* sink) {
  const hn::ScalableTag<float> d;
  const auto f = hn::Set(d, factor);
  auto s0 = hn::Set(d, factor + 0), s1 = hn::Set(d, factor + 1), s2 = hn::Set(d, factor + 2);
  auto s3 = hn::Set(d, factor + 3), s4 = hn::Set(d, factor + 4), s5 = hn::Set(d, factor + 5);
  auto s6 = hn::Set(d, factor + 6), s7 = hn::Set(d, factor + 7), s8 = hn::Set(d, factor + 8);
  auto s9 = hn::Set(d, factor + 9), s10 = hn::Set(d, factor + 10), s11 = hn::Set(d, factor + 11);
  auto s12 = hn::Set(d, factor + 12), s13 = hn::Set(d, factor + 13);
  for (int64_t i = 0; i < rounds; ++i) {
    s0 = hn::MulAdd(f, f, s0), s1 = hn::MulAdd(f, f, s1), s2 = hn::MulAdd(f, f, s2);
    s3 = hn::MulAdd(f, f, s3), s4 = hn::MulAdd(f, f, s4), s5 = hn::MulAdd(f, f, s5);
    s6 = hn::MulAdd(f, f, s6), s7 = hn::MulAdd(f, f, s7), s8 = hn::MulAdd(f, f, s8);
    s9 = hn::MulAdd(f, f, s9), s10 = hn::MulAdd(f, f, s10), s11 = hn::MulAdd(f, f, s11);
    s12 = hn::MulAdd(f, f, s12), s13 = hn::MulAdd(f, f, s13);
  }
  auto sum = hn::Add(hn::Add(hn::Add(s0, s1), hn::Add(s2, s3)), hn::Add(s4, s5));
  sum = hn::Add(sum, hn::Add(hn::Add(s6, s7), hn::Add(s8, s9)));
  sum = hn::Add(sum, hn::Add(hn::Add(s10, s11), hn::Add(s12, s13)));
  *sink = hn::GetLane(sum);
  return 2.0 * 14 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

// x = x / 2 + 1 / 2, which stays where it is however often it is done.
void halve_towards_one(double* x, size_t count) {
  const hn::ScalableTag<double> d;
  const size_t lanes = hn::Lanes(d);
  const auto half = hn::Set(d, 0.5);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + i), half, half), d, x + i);
  }
  for (; i < count; ++i) x[i] = x[i] * 0.5 + 0.5;
}

}  // namespace mala::bench::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <vector>

#include "mala/core/parallel.h"

namespace mala::bench {

namespace {

HWY_EXPORT(multiply_add);
HWY_EXPORT(halve_towards_one);

double seconds_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Written to by every burst, so that no compiler may leave the work out.
volatile float kept_alive = 0.001f;

// Twice the last level of cache for each of the two buffers, and at least 128 MiB.
size_t copy_bytes() {
  const long cache = std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 0L);
  return std::max<size_t>(size_t{128} << 20, 2 * static_cast<size_t>(cache));
}

}  // namespace

double multiply_add_burst() {
  constexpr int64_t kRounds = 200'000;
  const int64_t workers = max_workers();
  std::vector<double> flop(static_cast<size_t>(workers));
  const float factor = 0.001f + 0.0f * kept_alive;
  parallel_for(workers, [&](int64_t task, int64_t) {
    float sink = 0;
    flop[static_cast<size_t>(task)] = HWY_DYNAMIC_DISPATCH(multiply_add)(kRounds, factor, &sink);
    kept_alive = sink;
  });
  return std::accumulate(flop.begin(), flop.end(), 0.0);
}

double measure_fma_gflops() {
  constexpr int kBursts = 250;
  double best = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    double flop = 0;
    const double seconds = seconds_of([&] { flop = multiply_add_burst(); });
    best = std::max(best, flop / seconds);
  }
  return best * 1e-9;
}

double measure_copy_gbytes() {
  constexpr int kBursts = 8;
  const size_t bytes = copy_bytes(), slices = static_cast<size_t>(max_workers());
  const size_t slice = bytes / slices;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  double best = 0;
  for (int burst = 0; burst < kBursts; ++burst) {
    const double seconds = seconds_of([&] {
      parallel_for(static_cast<int64_t>(slices), [&](int64_t task, int64_t) {
        const size_t start = static_cast<size_t>(task) * slice;
        std::memcpy(to.data() + start, from.data() + start, slice);
      });
    });
    best = std::max(best, 2.0 * static_cast<double>(slice * slices) / seconds);
  }
  return best * 1e-9;
}

// Torch's loop gives a worker the same part each time; ours gives parts as workers ask for them.
void sweep_in_place(std::span<double> values) {
  const int64_t size = static_cast<int64_t>(values.size()), workers = max_workers();
  at::parallel_for(0, size, (size + workers - 1) / workers, [&](int64_t first, int64_t last) {
    HWY_DYNAMIC_DISPATCH(halve_towards_one)
    (values.data() + first, static_cast<size_t>(last - first));
  });
}

}  // namespace mala::bench
#endif
