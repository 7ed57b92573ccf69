// Sets how many threads the kernels use, for the time of a scope.
#pragma once

#include <cstdlib>
#include <string>

#include "mala/core/parallel.h"
#ifndef MALA_STD_THREADS
#include <omp.h>
#endif

namespace mala::test {

class ThreadCount {
 public:
  explicit ThreadCount(int64_t threads) : before_(max_workers()) { set(threads); }
  ~ThreadCount() { set(before_); }
  ThreadCount(const ThreadCount&) = delete;

 private:
  static void set(int64_t threads) {
#ifdef MALA_STD_THREADS
    setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
#else
    omp_set_num_threads(static_cast<int>(threads));
#endif
  }
  int64_t before_;
};

}  // namespace mala::test
