// parallel_for: every task once, workers told apart, nothing lost in corners.
#include "mala/core/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

namespace mala {
namespace {

TEST(ParallelFor, RunsEveryTaskOnce) {
  for (const int64_t tasks : {1, 2, 3, 17, 1000}) {
    std::vector<std::atomic<int>> runs(tasks);
    parallel_for(tasks, [&](int64_t task, int64_t) { ++runs[task]; });
    for (int64_t task = 0; task < tasks; ++task) EXPECT_EQ(runs[task], 1) << task;
  }
}

TEST(ParallelFor, RunsNothingForNoTasks) {
  parallel_for(0, [](int64_t, int64_t) { ADD_FAILURE() << "there is no task to run"; });
}

TEST(ParallelFor, HasAtLeastOneWorker) { EXPECT_GE(max_workers(), 1); }

// A worker owns its part of the scratch: its id is in range and it has one task at a time.
TEST(ParallelFor, AWorkerHasOneTaskAtATime) {
  const int64_t workers = max_workers();
  std::vector<std::atomic<int>> busy(workers);
  std::atomic<int> wrong{0};
  parallel_for(2000, [&](int64_t, int64_t worker) {
    if (worker < 0 || worker >= workers) {
      ++wrong;
      return;
    }
    if (busy[worker]++ != 0) ++wrong;
    if (--busy[worker] != 0) ++wrong;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(ParallelFor, RunsInsideItself) {
  constexpr int64_t kOuter = 7, kInner = 11;
  std::vector<std::atomic<int>> runs(kOuter * kInner);
  std::atomic<int> wrong{0};
  parallel_for(kOuter, [&](int64_t outer, int64_t) {
    const int64_t workers = max_workers();
    parallel_for(kInner, [&, workers](int64_t inner, int64_t worker) {
      ++runs[outer * kInner + inner];
      if (worker < 0 || worker >= workers) ++wrong;
    });
  });
  for (const std::atomic<int>& run : runs) EXPECT_EQ(run, 1);
  EXPECT_EQ(wrong, 0);
}

// What tasks write is there when parallel_for returns.
TEST(ParallelFor, FinishesBeforeItReturns) {
  std::vector<int64_t> squares(5000);
  parallel_for(5000, [&](int64_t task, int64_t) { squares[task] = task * task; });
  for (int64_t task = 0; task < 5000; ++task) ASSERT_EQ(squares[task], task * task);
}

}  // namespace
}  // namespace mala
