// Barriers in shared memory (mbarrier), which threads of all blocks of a cluster arrive at.
#include <cstring>
#include <utility>

#include "tests/emulator/block.h"
#include "tests/emulator/ptx.h"
#include "tests/emulator/scheduler.h"

namespace mala::emulator {
namespace {

constexpr size_t kBytes = 8;

Mailbox& mailbox_at(uint64_t address, const Where& where) {
  auto& all = current_block().cluster->mailboxes;
  const auto found = all.find(in_shared(address, kBytes, where));
  if (found == all.end()) fail_at(where, "a barrier that nobody has begun");
  return found->second;
}

void deliver(const Letter& letter) { std::memcpy(letter.to, letter.bytes.data(), letter.size); }

void open_if_full(Mailbox& mailbox) {
  if (mailbox.arrived < mailbox.writers || mailbox.bytes != 0) return;
  for (const Letter& letter : std::exchange(mailbox.late, {})) deliver(letter);
  mailbox.arrived = 0;
  ++mailbox.turn;
  for (Thread* thread : std::exchange(mailbox.waiting, {})) wake(thread);
}

}  // namespace

void open_mailbox(uint64_t address, int writers, const Where& where) {
  if (writers < 1) fail_at(where, "a barrier of ", writers, " threads");
  current_block().cluster->mailboxes[in_shared(address, kBytes, where)] = {.writers = writers};
}

void arrive_at_mailbox(uint64_t address, int bytes, const Where& where) {
  Mailbox& mailbox = mailbox_at(address, where);
  if (++mailbox.arrived > mailbox.writers)
    fail_at(where, "comes to a barrier where bytes of the turn before are missing");
  mailbox.bytes -= bytes;
  open_if_full(mailbox);
}

// It comes at once, so that who still reads there is disturbed, or as late as it may: with a seed
// sometimes so, sometimes so.
void send(uint64_t to, const void* bytes, size_t size, uint64_t address, const Where& where) {
  Mailbox& mailbox = mailbox_at(address, where);
  Letter letter{.to = in_shared(to, size, where), .size = size};
  if (size > letter.bytes.size()) fail_at(where, "st.async of ", size, " bytes; 16 are the most");
  std::memcpy(letter.bytes.data(), bytes, size);
  if (draw(2, 0) == 0) {
    deliver(letter);
  } else {
    mailbox.late.push_back(letter);
  }
  mailbox.bytes += static_cast<int64_t>(size);
  open_if_full(mailbox);
}

// For the end of the turn that goes on now, or of the one before, which has ended.
void wait_for_mailbox(uint64_t address, int parity, const Where& where) {
  Mailbox& mailbox = mailbox_at(address, where);
  note("mbarrier.try_wait", where);
  if (mailbox.turn % 2 != parity) return;
  mailbox.waiting.push_back(current_thread());
  sleep();
}

}  // namespace mala::emulator
