// Lanes that meet, and what they hand to each other.
#include "tests/emulator/warp.h"

#include <algorithm>
#include <cstring>

#include "tests/emulator/ptx.h"
#include "tests/emulator/scheduler.h"

namespace mala::emulator {
namespace {

uint32_t lanes_present(const Thread& thread) {
  const int lanes = std::min(kLanes, thread.block->size - kLanes * thread.warp());
  return (~0u >> (kLanes - lanes)) & ~warp_of(thread).ended;
}

// The meeting that waits for lanes of `mask`, or a new one.
Meeting& meeting_of(Warp& warp, uint32_t mask, const char* what, const Where& where) {
  for (Meeting& meeting : warp.meetings) {
    if (!(meeting.mask & mask)) continue;
    if (meeting.what != what && std::strcmp(meeting.what, what) != 0)
      fail_at(where, "comes to ", what, " while other lanes of its warp wait in ", meeting.what);
    return meeting;
  }
  warp.meetings.push_back({.mask = mask, .what = what});
  return warp.meetings.back();
}

struct ShuffleArguments {
  const void* from;
  void* to;
  size_t bytes;
  int source;  // lane
  Where where;
};

void shuffle_all(Meeting& meeting) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if (!meeting.threads[lane]) continue;
    const auto& mine = arguments_of<ShuffleArguments>(meeting, lane);
    if (!meeting.threads[mine.source])
      fail_at(mine.where, "takes from lane ", mine.source, ", which does not take part");
    const auto& other = arguments_of<ShuffleArguments>(meeting, mine.source);
    std::memcpy(mine.to, other.from, mine.bytes);
  }
}

}  // namespace

void meet(uint32_t mask, const char* what, void* arguments, void (*act)(Meeting&),
          const Where& where) {
  Thread& thread = *current_thread();
  Warp& warp = warp_of(thread);
  const int lane = thread.lane();
  note(what, where);
  if (!(mask >> lane & 1)) fail_at(where, "lane ", lane, " is not in its own mask");
  Meeting& meeting = meeting_of(warp, mask & lanes_present(thread), what, where);
  if (meeting.arrived >> lane & 1) fail_at(where, "lane ", lane, " comes twice to ", what);
  meeting.arrived |= 1u << lane;
  meeting.arguments[lane] = arguments;
  meeting.threads[lane] = &thread;
  if (meeting.arrived != (meeting.mask & ~warp.ended)) return sleep();
  Meeting done = meeting;
  warp.meetings.erase(warp.meetings.begin() + (&meeting - warp.meetings.data()));
  act(done);
  for (Thread* other : done.threads)
    if (other && other != &thread) wake(other);
}

void meet_all(const char* what, void* arguments, void (*act)(Meeting&), const Where& where) {
  if (lanes_present(*current_thread()) != ~0u) fail_at(where, what, " by a part of a warp");
  meet(~0u, what, arguments, act, where);
}

void sync_warp(uint32_t mask, const Where& where) {
  meet(
      mask, "__syncwarp", nullptr, [](Meeting&) {}, where);
}

void shuffle(uint32_t mask, void* value, size_t bytes, int source, const Where& where) {
  unsigned char copy[8];
  std::memcpy(copy, value, bytes);
  ShuffleArguments arguments{copy, value, bytes, source, where};
  meet(mask, "a shuffle", &arguments, shuffle_all, where);
}

int current_lane() { return current_thread()->lane(); }
uint32_t thread_in_block() { return current_thread()->place.x; }

}  // namespace mala::emulator
