// Pages from the operating system.
#include "tests/emulator/pages.h"

#include <sys/mman.h>

#include <new>

namespace mala::emulator {
namespace {

constexpr size_t kPageBytes = 4096;

}  // namespace

Pages::Pages(size_t bytes) {
  const size_t all = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes + 2 * kPageBytes;
  void* memory = mmap(nullptr, all, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  begin_ = static_cast<std::byte*>(memory) + kPageBytes;
  end_ = static_cast<std::byte*>(memory) + all - kPageBytes;
  mprotect(begin_ - kPageBytes, kPageBytes, PROT_NONE);
  mprotect(end_, kPageBytes, PROT_NONE);
}

Pages::~Pages() {
  munmap(begin_ - kPageBytes, static_cast<size_t>(end_ - begin_) + 2 * kPageBytes);
}

}  // namespace mala::emulator
