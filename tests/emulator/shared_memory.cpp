// Memory of blocks between borders, found by 32-bit addresses that say whose it is.
#include "tests/emulator/shared_memory.h"

#include <algorithm>
#include <cstring>

#include "tests/emulator/device_kind.h"
#include "tests/emulator/launch.h"
#include "tests/emulator/ptx.h"
#include "tests/emulator/scheduler.h"

namespace mala::emulator {
namespace {

// A border before the memory, so that address 0 is never right, and one behind it.
constexpr size_t kFirst = 1024, kRoom = 256 * 1024;
constexpr int kUntouched = 0xFF;  // every float made of it is NaN

// Addresses of another block of the cluster have its rank, counted from one, in their upper bits.
constexpr uint32_t kRankShift = 24, kOffsetMask = (1u << kRankShift) - 1;

// Kept for the blocks that come later.
uint8_t* room_of(size_t rank) {
  static std::deque<Pages> rooms;
  while (rooms.size() <= rank) rooms.emplace_back(kRoom);
  return reinterpret_cast<uint8_t*>(rooms[rank].begin());
}

size_t align_up(size_t x, size_t align) { return (x + align - 1) / align * align; }

const Block& block_of_address(uint32_t address, const Where& where) {
  const Block& mine = current_block();
  const uint32_t rank = address >> kRankShift;
  if (rank == 0) return mine;
  if (rank > mine.cluster->blocks.size())
    fail_at(where, "address ", address, " is of no block of the cluster");
  return mine.cluster->blocks[rank - 1];
}

}  // namespace

void prepare_shared_memory(Block& block, size_t bytes) {
  block.memory = room_of(block.rank);
  block.memory_end = kFirst + bytes;
  std::memset(block.memory, kUntouched, kRoom);
}

void check_borders(const Block& block) {
  // All bytes are the first one if each is the one before it.
  auto touched = [&](size_t from, size_t to) {
    const uint8_t* first = block.memory + from;
    return *first != kUntouched || std::memcmp(first, first + 1, to - from - 1) != 0;
  };
  if (touched(0, kFirst)) fail("shared memory before the block's was written");
  if (touched(block.memory_end, kRoom))
    fail(str("shared memory behind the block's ", block.memory_end - kFirst, " bytes was written"));
}

void* shared_array() { return current_block().memory + kFirst; }

void* shared_variable(size_t bytes, size_t align, const char* name, const char* function) {
  Block& block = current_block();
  const std::string full_name = str(function, ": ", name);
  for (const SharedVariable& variable : block.variables)
    if (variable.name == full_name) return block.memory + variable.offset;
  const size_t offset = align_up(block.memory_end, std::max<size_t>(align, 16));
  block.memory_end = offset + bytes;
  if (block.memory_end > kFirst + device_kind().shared_bytes)
    fail("there is not so much shared memory");
  block.variables.push_back({full_name, offset});
  return block.memory + offset;
}

uint32_t shared_address(const void* pointer) {
  const Block& mine = current_block();
  for (const Block& block : mine.cluster->blocks) {
    const ptrdiff_t offset = static_cast<const uint8_t*>(pointer) - block.memory;
    if (offset >= 0 && offset <= static_cast<ptrdiff_t>(kRoom))
      return static_cast<uint32_t>(offset) | (&block == &mine ? 0 : block.rank + 1) << kRankShift;
  }
  fail(str(pointer, " is not in shared memory"));
}

void* in_shared(uint64_t address, size_t bytes, const Where& where) {
  const Block& block = block_of_address(static_cast<uint32_t>(address), where);
  const size_t offset = address & kOffsetMask;
  if (offset < kFirst || offset + bytes > block.memory_end || address >> 32)
    fail_at(where, bytes, " bytes of shared memory from ",
            static_cast<int64_t>(offset) - static_cast<int64_t>(kFirst), " on, of ",
            block.memory_end - kFirst);
  if (offset % bytes)
    fail_at(where, "byte ", offset - kFirst, " of shared memory is no multiple of ", bytes);
  return block.memory + offset;
}

// Wherever it is: what lies in the block's room lies in its memory.
void* in_global(uint64_t address, size_t bytes, const Where& where) {
  if (address % bytes) fail_at(where, "address ", address, " is no multiple of ", bytes);
  const Block& block = current_block();
  const uint64_t offset = address - reinterpret_cast<uint64_t>(block.memory);
  if (offset < kRoom && (offset < kFirst || offset + bytes > block.memory_end))
    fail_at(where, bytes, " bytes of shared memory by a pointer, from ",
            static_cast<int64_t>(offset) - static_cast<int64_t>(kFirst), " on, of ",
            block.memory_end - kFirst);
  return reinterpret_cast<void*>(address);
}

uint64_t in_other_block(uint64_t pointer, uint32_t rank, const Where& where) {
  const Block& mine = current_block();
  const uint64_t offset = pointer - reinterpret_cast<uint64_t>(mine.memory);
  if (rank >= mine.cluster->blocks.size() || offset > kRoom)
    fail_at(where, "mapa to block ", rank, " of ", mine.cluster->blocks.size(), ", from byte ",
            offset, " of shared memory");
  return reinterpret_cast<uint64_t>(mine.cluster->blocks[rank].memory) + offset;
}

uint32_t address_in_other_block(uint32_t address, uint32_t rank, const Where& where) {
  const Block& mine = current_block();
  if (rank >= mine.cluster->blocks.size() || address >> kRankShift)
    fail_at(where, "mapa of address ", address, " to block ", rank, " of ",
            mine.cluster->blocks.size());
  return address | (rank + 1) << kRankShift;
}

uint32_t rank_in_cluster() { return runs_together() ? 0 : current_block().rank; }
uint32_t blocks_in_cluster() {
  return runs_together() ? 1 : static_cast<uint32_t>(current_block().cluster->blocks.size());
}

}  // namespace mala::emulator
