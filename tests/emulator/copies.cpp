// Copies happen as late as they may: when their thread waits. Until then there is NaN in their
// place, so that whoever reads too early shows it.
#include "tests/emulator/copies.h"

#include <cstring>

#include "tests/emulator/ptx.h"
#include "tests/emulator/scheduler.h"

namespace mala::emulator {
namespace {

void finish(const std::vector<Copy>& copies) {
  for (const Copy& copy : copies) {
    const void* from = copy.is_early ? copy.read_early.data() : copy.from;
    std::memcpy(copy.to, from, copy.source_bytes);
    std::memset(static_cast<char*>(copy.to) + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
  }
}

}  // namespace

void copy_async(uint64_t to, uint64_t from, uint32_t bytes, uint32_t source_bytes,
                const Where& where) {
  note("cp.async", where);
  void* place = in_shared(to, bytes, where);
  if (source_bytes > bytes || bytes > Copy::kMostBytes)
    fail_at(where, "cp.async of ", source_bytes, " bytes into ", bytes);
  if (from % bytes) fail_at(where, "cp.async from ", from, ", no multiple of ", bytes);
  const char* source = reinterpret_cast<const char*>(from);
  // Memory that must not be read is noticed here, where the message names the place.
  if (source_bytes > 0) [[maybe_unused]]
    const char touched = *static_cast<const volatile char*>(source);
  Copy copy{place, source, bytes, source_bytes, is_early()};
  // Before the kernel ahead has ended the other extreme is the worst: what is read is old.
  if (copy.is_early) std::memcpy(copy.read_early.data(), source, source_bytes);
  current_thread()->open_copies.push_back(copy);
  std::memset(place, 0xFF, bytes);
}

void commit_copies() {
  Thread& thread = *current_thread();
  thread.copy_groups.push_back(std::move(thread.open_copies));
  thread.open_copies.clear();
}

void wait_copies(size_t pending) {
  std::deque<std::vector<Copy>>& groups = current_thread()->copy_groups;
  while (groups.size() > pending) {
    finish(groups.front());
    groups.pop_front();
  }
}

void finish_all_copies(Thread& thread) {
  for (const std::vector<Copy>& group : thread.copy_groups) finish(group);
  finish(thread.open_copies);
}

}  // namespace mala::emulator
