// Independent tasks on all cores. Hides the thread library: OpenMP, whose pool torch shares, or
// std::thread in builds for ThreadSanitizer, which does not know libgomp.
#pragma once

#include <cstdint>
#include <functional>

namespace mala {

// How many workers parallel_for uses at most; set by OMP_NUM_THREADS or the OpenMP calls.
int64_t max_workers();

// Calls body(task, worker) once for every task in 0..tasks-1, in any order, with worker below
// max_workers() and never two tasks of one worker at a time. Inside another parallel region it
// runs on the caller's thread. Where there is a worker for every task, OpenMP's take the same task
// each time, so that a call finds in its core's cache what the last one left there. `body` must not
// throw.
void parallel_for(int64_t tasks, const std::function<void(int64_t task, int64_t worker)>& body);

}  // namespace mala
