// Memory between pages that nobody may touch: whoever goes beyond its end is seen.
#pragma once

#include <cstddef>

namespace mala::emulator {

class Pages {
 public:
  explicit Pages(size_t bytes);  // rounded up to whole pages; throws std::bad_alloc
  ~Pages();
  Pages(const Pages&) = delete;

  std::byte* begin() const { return begin_; }
  std::byte* end() const { return end_; }

 private:
  std::byte *begin_, *end_;
};

}  // namespace mala::emulator
