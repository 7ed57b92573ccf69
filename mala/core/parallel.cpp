// parallel_for over OpenMP or std::thread.
#include "mala/core/parallel.h"

#ifdef MALA_STD_THREADS
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>
#else
#include <omp.h>
#endif

namespace mala {

#ifdef MALA_STD_THREADS

int64_t max_workers() {
  const char* asked = std::getenv("OMP_NUM_THREADS");
  if (asked && std::atoi(asked) > 0) return std::atoi(asked);
  return std::max(1u, std::thread::hardware_concurrency());
}

void parallel_for(int64_t tasks, const std::function<void(int64_t, int64_t)>& body) {
  std::atomic<int64_t> next{0};
  auto work = [&](int64_t worker) {
    for (int64_t task; (task = next.fetch_add(1)) < tasks;) body(task, worker);
  };
  std::vector<std::thread> others;
  for (int64_t w = 1; w < std::min(max_workers(), tasks); ++w) others.emplace_back(work, w);
  work(0);
  for (std::thread& other : others) other.join();
}

#else

int64_t max_workers() { return omp_in_parallel() ? 1 : omp_get_max_threads(); }

void parallel_for(int64_t tasks, const std::function<void(int64_t, int64_t)>& body) {
  if (tasks <= 1 || max_workers() == 1) {
    for (int64_t task = 0; task < tasks; ++task) body(task, 0);
    return;
  }
  if (tasks <= max_workers()) {
#pragma omp parallel for schedule(static, 1)
    for (int64_t task = 0; task < tasks; ++task) body(task, omp_get_thread_num());
    return;
  }
#pragma omp parallel for schedule(dynamic)
  for (int64_t task = 0; task < tasks; ++task) body(task, omp_get_thread_num());
}

#endif

}  // namespace mala
