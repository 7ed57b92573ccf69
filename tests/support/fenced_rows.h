// Rows of which the first can be read, up to the last byte, and the others cannot: a read beyond
// ends the program.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "mala/core/error.h"
#include "mala/core/views.h"

namespace mala::test {

class FencedRows {
 public:
  FencedRows(const std::vector<double>& readable, int64_t rows, int64_t dim)
      : rows_(rows), dim_(dim) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = readable.size() * sizeof(float), open = (bytes + page - 1) / page * page;
    size_ = open + rows * dim * sizeof(float);
    base_ = mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base_ == MAP_FAILED || mprotect(base_, open, PROT_READ | PROT_WRITE) != 0)
      throw Error(str("no fence of ", size_, " bytes could be made"));
    first_ = reinterpret_cast<float*>(static_cast<std::byte*>(base_) + open - bytes);
    std::copy(readable.begin(), readable.end(), first_);
  }
  ~FencedRows() { munmap(base_, size_); }
  FencedRows(const FencedRows&) = delete;

  HeadsView<const float> view() const {
    return dense_heads<const float>(first_, 1, 1, rows_, dim_);
  }

 private:
  int64_t rows_, dim_;
  size_t size_;
  void* base_;
  float* first_;
};

}  // namespace mala::test
