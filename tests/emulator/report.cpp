// Names and places of threads; and a last word where memory is touched that is nobody's.
#include "tests/emulator/report.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "tests/emulator/launch.h"
#include "tests/emulator/scheduler.h"

namespace mala::emulator {
namespace {

std::string text_of(const Where& where) {
  const std::string file = where.file_name();
  const size_t folder = file.rfind('/');
  return str(folder == std::string::npos ? file : file.substr(folder + 1), ":", where.line());
}

std::string text_of(const uint3& index) {
  return str("block (", index.x, ", ", index.y, ", ", index.z, ")");
}

// "0-31, 64" of 0, 1, ..., 31, 64.
std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (size_t first = 0, last = 0; first < numbers.size(); first = ++last) {
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += str(text.empty() ? "" : ", ", numbers[first]);
    if (last > first) text += str("-", numbers[last]);
  }
  return text;
}

// Memory of the device and stacks end at pages that nobody may touch. There is no way back from
// here; the message is all that can be done.
void on_stray_access(int, siginfo_t* info, void*) {
  const Thread* thread = current_thread();
  const std::string text =
      str("\n[emulator] address ", info->si_addr, " was touched, which is nobody's",
          thread ? str(", in ", kernel_name(), place_of(*thread)) : "", "\n");
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
  signal(SIGSEGV, SIG_DFL);
  raise(SIGSEGV);
}

// On a stack of its own, since the thread's may be what is at its end.
const bool kListens = [] {
  stack_t stack{};
  stack.ss_size = 64 * 1024;
  stack.ss_sp = std::malloc(stack.ss_size);
  sigaltstack(&stack, nullptr);
  struct sigaction action {};
  action.sa_sigaction = on_stray_access;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  return sigaction(SIGSEGV, &action, nullptr) == 0;
}();

}  // namespace

std::string name_of(const void* function) {
  Dl_info info{};
  if (!dladdr(function, &info) || info.dli_saddr != function) return "a kernel";
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), std::free);
  return name ? name.get() : info.dli_sname;
}

std::string place_of(const Thread& thread) {
  return str("\n  ", text_of(thread.block->index), " thread ", thread.index, " (warp ",
             thread.warp(), ", lane ", thread.lane(), "), last seen in ", thread.doing, " at ",
             text_of(thread.where));
}

std::string who_waits_where(const Cluster& cluster) {
  std::string text;
  for (const Block& block : cluster.blocks) {
    std::map<std::string, std::vector<int>> threads;
    for (const Thread* thread : block.threads) {
      const std::string place = str(thread->doing, " at ", text_of(thread->where));
      threads[thread->ended ? "its end" : place].push_back(thread->index);
    }
    for (const auto& [place, who] : threads)
      text += str("\n  ", text_of(block.index), " threads ", ranges(who), ": ", place);
    for (int i = 0; i < Block::kBarriers; ++i) {
      const Barrier& barrier = block.barriers[i];
      if (barrier.arrived == 0) continue;
      text += str("\n  ", text_of(block.index), " barrier ", i, ": ", barrier.arrived, " of ",
                  barrier.expected ? barrier.expected : block.live, " threads came");
    }
  }
  return text;
}

void fail(const std::string& what) {
  const Thread* thread = current_thread();
  if (!thread) throw Error("[emulator] " + what);
  give_up("[emulator] " + what + place_of(*thread));
}

}  // namespace mala::emulator
