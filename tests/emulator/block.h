// The threads that run together: of a warp, of a block, and of a cluster of blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tests/emulator/failure.h"
#include "tests/emulator/fiber.h"
#include "tests/emulator/products.h"
#include "tests/emulator/vectors.h"

namespace mala::emulator {

struct Block;
struct Thread;

constexpr int kLanes = 32;

// One cp.async on its way.
struct Copy {
  static constexpr size_t kMostBytes = 16;

  void* to;
  const void* from;
  size_t bytes, source_bytes;  // the rest becomes zeros
  bool is_early = false;       // what it reads was read at once
  std::array<std::byte, kMostBytes> read_early{};
};

struct Thread {
  Fiber fiber;
  Block* block = nullptr;
  int index = 0;  // in its block
  uint3 place{};  // the same in three dimensions
  bool ended = false;
  const char* doing = "its start";  // what it waits for, and where: for messages
  Where where{};
  std::vector<Copy> open_copies{};              // in no group yet
  std::deque<std::vector<Copy>> copy_groups{};  // the oldest first
  int cluster_phase = -1;                       // in which it came to the cluster's barrier

  int warp() const { return index / kLanes; }
  int lane() const { return index % kLanes; }
};

// One of a block's sixteen barriers.
struct Barrier {
  int expected = 0, arrived = 0;  // expected: 0 is all that live
  int votes = 0;
  struct Waiting {
    Thread* thread;
    int* votes;  // where to leave how many there were
  };
  std::vector<Waiting> waiting{};
};

// Lanes of a warp that wait for each other in one instruction, each with its own arguments.
struct Meeting {
  uint32_t mask = 0, arrived = 0;
  const char* what = "";
  void* arguments[kLanes] = {};
  Thread* threads[kLanes] = {};
};

struct Warp {
  uint32_t ended = 0;
  std::vector<Meeting> meetings{};
  WarpProducts products{};
};

// A variable of shared memory that is no array of unknown size.
struct SharedVariable {
  std::string name;
  size_t offset;
};

struct Cluster;
struct Block {
  static constexpr int kBarriers = 16;

  Cluster* cluster = nullptr;
  unsigned rank = 0;  // in its cluster
  uint3 index{};
  int size = 0, live = 0;  // threads
  uint8_t* memory = nullptr;
  size_t memory_end = 0;
  Barrier barriers[kBarriers]{};
  std::vector<Warp> warps{};
  std::vector<SharedVariable> variables{};
  std::vector<Thread*> threads{};
};

// What is on its way to shared memory.
struct Letter {
  void* to = nullptr;
  std::array<std::byte, 16> bytes{};
  size_t size = 0;
};

// A barrier in shared memory, which holds its turn.
struct Mailbox {
  int writers = 0, arrived = 0, turn = 0;
  int64_t bytes = 0;  // that were sent, less those that writers told of
  std::vector<Letter> late{};
  std::vector<Thread*> waiting{};
};

class EarlyStart;
struct Cluster {
  std::vector<Block> blocks{};
  int live = 0, arrived = 0, phase = 0;  // at the cluster's barrier
  std::vector<Thread*> waiting{};
  std::map<void*, Mailbox> mailboxes{};      // by where they are
  EarlyStart* early_start = nullptr;         // before the kernel ahead has ended
  std::vector<Thread*> wait_for_ahead = {};  // threads that wait for that
};

}  // namespace mala::emulator
