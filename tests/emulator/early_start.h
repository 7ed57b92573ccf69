// Kernels that begin before the one ahead of them has ended: until they wait for it, they see
// memory as it was before that one.
#pragma once

#include <cstddef>
#include <vector>

namespace mala::emulator {

// What an allocation of the device has had in it.
struct KeptMemory {
  std::byte* at;
  std::vector<std::byte> bytes;
};
std::vector<KeptMemory> keep_memory();
// Memory becomes what was kept, and what was kept becomes what memory was.
void exchange_memory(std::vector<KeptMemory>& kept);

// Takes the memory of the device back for as long as a cluster has not waited for the kernel ahead.
class EarlyStart {
 public:
  // Nothing happens where nothing was kept.
  explicit EarlyStart(std::vector<KeptMemory>& before) : before_(before) { exchange(); }
  ~EarlyStart() { end(); }
  EarlyStart(const EarlyStart&) = delete;

  bool lasts() const { return lasts_; }
  void end() {
    if (lasts_) exchange();
  }

 private:
  void exchange() {
    exchange_memory(before_);
    lasts_ = !lasts_ && !before_.empty();
  }

  std::vector<KeptMemory>& before_;
  bool lasts_ = false;
};

}  // namespace mala::emulator
