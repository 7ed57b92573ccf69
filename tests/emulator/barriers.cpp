// Barriers of a block, by all its threads or by some, and of a cluster.
#include "tests/emulator/barriers.h"

#include <utility>

#include "tests/emulator/launch.h"
#include "tests/emulator/ptx.h"
#include "tests/emulator/scheduler.h"

namespace mala::emulator {
namespace {

bool is_full(const Block& block, const Barrier& barrier) {
  return barrier.arrived > 0 &&
         barrier.arrived >= (barrier.expected ? barrier.expected : block.live);
}

void open(Barrier& barrier) {
  const Barrier done = std::exchange(barrier, {});
  for (const Barrier::Waiting& one : done.waiting) {
    *one.votes = done.votes;
    wake(one.thread);
  }
}

void open_if_full(Cluster& cluster) {
  if (cluster.arrived == 0 || cluster.arrived < cluster.live) return;
  cluster.arrived = 0;
  ++cluster.phase;
  for (Thread* thread : std::exchange(cluster.waiting, {})) wake(thread);
}

}  // namespace

int sync_threads(int id, int threads, bool vote, const Where& where) {
  Block& block = current_block();
  note("a barrier", where);
  if (id < 0 || id >= Block::kBarriers || threads % kLanes || threads > block.size)
    fail_at(where, "barrier ", id, " of ", threads, " threads, in a block of ", block.size);
  if (threads == block.size) threads = 0;  // all
  Barrier& barrier = block.barriers[id];
  if (barrier.arrived > 0 && barrier.expected != threads)
    fail_at(where, "barrier ", id, " of ", threads, " threads, where others said ",
            barrier.expected, " (0: all)");
  barrier.expected = threads;
  ++barrier.arrived;
  barrier.votes += vote;
  int votes = barrier.votes;
  if (is_full(block, barrier)) {
    open(barrier);
  } else {
    barrier.waiting.push_back({current_thread(), &votes});
    sleep();
  }
  return votes;
}

void arrive_at_cluster(const Where& where) {
  Thread& thread = *current_thread();
  Cluster& cluster = *thread.block->cluster;
  note("barrier.cluster.arrive", where);
  if (thread.cluster_phase >= 0) fail_at(where, "comes twice to the barrier of the cluster");
  thread.cluster_phase = cluster.phase;
  ++cluster.arrived;
  open_if_full(cluster);
}

void wait_for_cluster(const Where& where) {
  Thread& thread = *current_thread();
  Cluster& cluster = *thread.block->cluster;
  note("barrier.cluster.wait", where);
  if (thread.cluster_phase < 0) fail_at(where, "waits for the cluster without having come");
  if (cluster.phase > std::exchange(thread.cluster_phase, -1)) return;
  cluster.waiting.push_back(&thread);
  sleep();
}

void sync_grid(const Where& where) {
  if (!runs_together()) fail_at(where, "waits for all blocks, some of which may not have begun");
  if (current_block().cluster->live < static_cast<int>(gridDim.size() * blockDim.size()))
    fail_at(where, "waits for all blocks, some of whose threads have ended");
  arrive_at_cluster(where);
  wait_for_cluster(where);
}

void stop_expecting(Block& block) {
  for (Barrier& barrier : block.barriers)
    if (barrier.expected == 0 && is_full(block, barrier)) open(barrier);
  if (runs_together() && block.cluster->arrived > 0)
    fail("a thread ends while others wait for all blocks");
  open_if_full(*block.cluster);
}

}  // namespace mala::emulator
