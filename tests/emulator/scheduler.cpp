// The queue of threads that can go on, and the orders in which they do.
#include "tests/emulator/scheduler.h"

#include <cstdlib>
#include <random>

#include "tests/emulator/barriers.h"
#include "tests/emulator/copies.h"
#include "tests/emulator/early_start.h"
#include "tests/emulator/ptx.h"
#include "tests/emulator/report.h"

uint3 threadIdx, blockIdx;

namespace mala::emulator {
namespace {

class Order {
 public:
  explicit Order(uint32_t seed) : seed_(seed), random_(seed) {}

  bool is_random() const { return seed_ != 0; }
  uint32_t draw() { return static_cast<uint32_t>(random_()); }

  // The warp with the lowest rank goes first. Ranks change now and then.
  uint64_t rank(size_t warp) const {
    return (warp * 0x9E3779B97F4A7C15u ^ epoch_) * 0xD6E8FEB86659FD93u;
  }
  void take_turn() {
    constexpr uint64_t kLongestEpoch = 5000;
    if (turns_++ < epoch_end_) return;
    epoch_ = random_();
    epoch_end_ = turns_ + random_() % kLongestEpoch;
  }

 private:
  uint32_t seed_;
  std::mt19937 random_;
  uint64_t turns_ = 0, epoch_ = 0, epoch_end_ = 0;
};

uint32_t seed_of_environment() {
  const char* text = std::getenv("MALA_EMULATOR_SEED");
  return text ? static_cast<uint32_t>(std::strtoul(text, nullptr, 10)) : 0;
}

Order order(seed_of_environment());
std::vector<std::deque<Thread*>> ready;  // of each warp of the cluster
size_t last_warp = 0;
Thread* current = nullptr;
void (*body_of_threads)() = nullptr;
std::string failure;

// The warp that goes on: in order, the last one as long as it can, then the next.
size_t next_warp() {
  if (order.is_random()) order.take_turn();
  size_t best = ready.size();
  for (size_t i = 0; i < ready.size(); ++i) {
    const size_t warp = (last_warp + i) % ready.size();
    if (ready[warp].empty()) continue;
    if (!order.is_random()) return warp;
    if (best == ready.size() || order.rank(warp) < order.rank(best)) best = warp;
  }
  return best;
}

Thread* next_thread() {
  const size_t warp = next_warp();
  if (warp == ready.size()) return nullptr;
  last_warp = warp;
  Thread* thread = ready[warp].front();
  ready[warp].pop_front();
  return thread;
}

void end_thread(Thread& thread) {
  Block& block = *thread.block;
  finish_all_copies(thread);
  const WarpProducts& products = warp_of(thread).products;
  if (!products.open.empty() || !products.groups.empty())
    fail("a thread ends while products of its warp are on their way");
  thread.ended = true;
  warp_of(thread).ended |= 1u << thread.lane();
  --block.live;
  --block.cluster->live;
  stop_expecting(block);
}

// The kernel ahead ends at last, when nobody can go on without it. Whether that helps anybody.
bool end_kernel_ahead(Cluster& cluster) {
  if (!cluster.early_start || !cluster.early_start->lasts()) return false;
  cluster.early_start->end();
  for (Thread* thread : cluster.wait_for_ahead) wake(thread);
  return !cluster.wait_for_ahead.empty();
}

void run_body() {
  body_of_threads();
  end_thread(*current);
  sleep();
}

}  // namespace

void set_seed(uint32_t seed) { order = Order(seed); }

uint32_t draw(uint32_t end, uint32_t otherwise) {
  return order.is_random() ? order.draw() % end : otherwise;
}

bool order_is_random() { return order.is_random(); }

bool is_early() {
  const EarlyStart* early = current_block().cluster->early_start;
  return early && early->lasts();
}

void wait_for_kernel_ahead(const Where& where) {
  note("griddepcontrol.wait", where);
  if (!is_early()) return;
  current_block().cluster->wait_for_ahead.push_back(current);
  sleep();
}

void let_next_kernel_begin(const Where& where) {
  if (is_early())
    fail_at(where, "the next kernel may begin before this one has waited for the one ahead of it");
}

Thread* current_thread() { return current; }

void note(const char* doing, const Where& where) {
  current->doing = doing;
  current->where = where;
}

void sleep() { current->fiber.pause(); }

void wake(Thread* thread) {
  const Block& block = *thread->block;
  ready[block.rank * block.warps.size() + static_cast<size_t>(thread->warp())].push_back(thread);
}

void give_up(const std::string& why) {
  failure = why;
  while (true) sleep();
}

void run_threads(Cluster& cluster, void (*body)()) {
  body_of_threads = body;
  ready.assign(cluster.blocks.size() * cluster.blocks[0].warps.size(), {});
  last_warp = 0;
  failure.clear();
  for (Block& block : cluster.blocks) {
    for (Thread* thread : block.threads) {
      thread->fiber.start(run_body);
      wake(thread);
    }
  }
  do {
    while (Thread* thread = next_thread()) {
      current = thread;
      threadIdx = thread->place;
      blockIdx = thread->block->index;
      thread->fiber.resume();
      current = nullptr;
      if (!failure.empty()) throw Error(failure);
    }
  } while (end_kernel_ahead(cluster));
  if (cluster.live > 0) throw Error("[emulator] no thread can go on" + who_waits_where(cluster));
}

}  // namespace mala::emulator
