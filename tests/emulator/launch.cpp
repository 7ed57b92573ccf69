// Makes the blocks of a grid and runs them, a cluster at a time.
#include "tests/emulator/launch.h"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <numeric>

#include "tests/emulator/device_kind.h"
#include "tests/emulator/early_start.h"
#include "tests/emulator/ptx.h"
#include "tests/emulator/report.h"
#include "tests/emulator/scheduler.h"
#include "tests/emulator/shared_memory.h"

dim3 blockDim, gridDim;

namespace mala::emulator {
namespace {

constexpr unsigned kMostThreads = 1024;
constexpr unsigned kMostAcross = 65535;  // blocks in the second and the third dimension of a grid

constexpr unsigned kEarlyClusters = 2;  // of a launch; others begin when the one ahead has ended

const Launch* running = nullptr;
std::vector<KeptMemory> before_last;  // memory, before the last launch

void check(const Launch& launch) {
  const dim3 &grid = launch.grid, &cluster = launch.cluster;
  if (grid.size() == 0 || launch.block.size() == 0 || launch.block.size() > kMostThreads)
    fail(str("a grid of ", grid.size(), " blocks of ", launch.block.size(), " threads"));
  if (grid.y > kMostAcross || grid.z > kMostAcross)
    fail(str("a grid of ", grid.x, " by ", grid.y, " by ", grid.z, " blocks"));
  if (launch.shared_bytes > device_kind().shared_bytes)
    fail(str("blocks with ", launch.shared_bytes, " bytes of shared memory"));
  if (grid.x % cluster.x || grid.y % cluster.y || grid.z % cluster.z)
    fail("a grid that clusters do not fill");
  if (launch.runs_together && cluster.size() > 1) fail("clusters that all run at once");
}

// The blocks that run beside each other, and may wait for each other.
dim3 blocks_together() { return running->runs_together ? running->grid : running->cluster; }

// Index `at` of a box, the first dimension fastest.
uint3 place_in(const dim3& box, unsigned at) {
  return {at % box.x, at / box.x % box.y, at / box.x / box.y};
}

// Stacks are kept for the blocks that come later.
Thread& thread_at(size_t i) {
  static std::deque<Thread> threads;
  while (threads.size() <= i) threads.emplace_back();
  return threads[i];
}

void prepare(Thread& thread, Block& block, int index) {
  thread.block = &block;
  thread.index = index;
  thread.place = place_in(running->block, static_cast<unsigned>(index));
  thread.ended = false;
  thread.doing = "its start";
  thread.where = {};
  thread.open_copies.clear();
  thread.copy_groups.clear();
  thread.cluster_phase = -1;
}

// Block `rank` of the cluster whose first block has index `first`.
void prepare(Block& block, Cluster& cluster, unsigned rank, const uint3& first) {
  const uint3 inside = place_in(blocks_together(), rank);
  block.cluster = &cluster;
  block.rank = rank;
  block.index = {first.x + inside.x, first.y + inside.y, first.z + inside.z};
  block.size = block.live = static_cast<int>(running->block.size());
  block.warps.resize((block.size + kLanes - 1) / kLanes);
  prepare_shared_memory(block, running->shared_bytes);
  for (int i = 0; i < block.size; ++i) {
    Thread& thread = thread_at(rank * running->block.size() + static_cast<unsigned>(i));
    prepare(thread, block, i);
    block.threads.push_back(&thread);
  }
}

void run_cluster(const uint3& first, std::vector<KeptMemory>& before) {
  Cluster cluster;
  EarlyStart early(before);
  cluster.early_start = &early;
  cluster.blocks.resize(blocks_together().size());
  for (unsigned rank = 0; rank < cluster.blocks.size(); ++rank) {
    prepare(cluster.blocks[rank], cluster, rank, first);
    cluster.live += cluster.blocks[rank].live;
  }
  run_threads(cluster, [] { running->body(); });
  for (const Block& block : cluster.blocks) check_borders(block);
}

void run_grid() {
  const dim3 grid = running->grid, size = blocks_together();
  const dim3 clusters(grid.x / size.x, grid.y / size.y, grid.z / size.z);
  std::vector<unsigned> order(clusters.size());
  std::iota(order.begin(), order.end(), 0u);
  for (unsigned i = clusters.size(); i > 1; --i) std::swap(order[i - 1], order[draw(i, i - 1)]);
  std::vector<KeptMemory> nothing;
  for (unsigned i = 0; i < clusters.size(); ++i) {
    const uint3 place = place_in(clusters, order[i]);
    const bool early = running->begins_early && i < kEarlyClusters;
    run_cluster({place.x * size.x, place.y * size.y, place.z * size.z},
                early ? before_last : nothing);
  }
}

void trace(const Launch& launch) {
  static const bool wanted = std::getenv("MALA_EMULATOR_TRACE") != nullptr;
  if (!wanted) return;
  std::cerr << "[emulator] " << kernel_name() << ", blocks " << launch.grid.size() << ", threads "
            << launch.block.size() << ", cluster " << launch.cluster.size() << ", shared bytes "
            << launch.shared_bytes << "\n";
}

}  // namespace

uint32_t dynamic_shared_bytes() { return static_cast<uint32_t>(running->shared_bytes); }

bool runs_together() { return running->runs_together; }

std::string kernel_name() { return running ? name_of(running->kernel) : "no kernel"; }

void run(const Launch& launch) {
  running = &launch;
  blockDim = launch.block;
  gridDim = launch.grid;
  trace(launch);
  std::vector<KeptMemory> before;
  if (order_is_random()) before = keep_memory();
  try {
    check(launch);
    run_grid();
  } catch (const Error& e) {
    before_last.clear();
    throw Error(str(e.what(), "\n  in ", kernel_name()));
  }
  before_last = std::move(before);
}

}  // namespace mala::emulator
