// Memory of the device: full of NaN at first, and between pages that nobody may touch.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <new>

#include "tests/emulator/early_start.h"
#include "tests/emulator/host_calls.h"
#include "tests/emulator/pages.h"

namespace mala::emulator {
namespace {

constexpr size_t kAlignment = 256;

std::map<void*, std::unique_ptr<Pages>> allocations;

}  // namespace

// The end is as near to the page behind it as the alignment allows.
cudaError_t allocate(void** memory, size_t bytes) try {
  const size_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto pages = std::make_unique<Pages>(room);
  *memory = pages->end() - room;
  std::memset(*memory, 0xFF, room);
  allocations[*memory] = std::move(pages);
  return cudaSuccess;
} catch (const std::bad_alloc&) {
  return cudaErrorMemoryAllocation;
}

std::vector<KeptMemory> keep_memory() {
  std::vector<KeptMemory> kept;
  for (const auto& [memory, pages] : allocations) {
    auto* begin = static_cast<std::byte*>(memory);
    kept.push_back({begin, {begin, pages->end()}});
  }
  return kept;
}

void exchange_memory(std::vector<KeptMemory>& kept) {
  for (auto& [at, bytes] : kept) {
    const auto still = allocations.find(at);
    if (still == allocations.end() || still->second->end() != at + bytes.size()) continue;
    std::swap_ranges(bytes.begin(), bytes.end(), at);
  }
}

}  // namespace mala::emulator

cudaError_t cudaFree(void* memory) {
  return !memory || mala::emulator::allocations.erase(memory) ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  if (bytes > 0) std::memset(to, value, bytes);
  return cudaSuccess;
}
