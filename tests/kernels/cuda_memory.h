// Memory of the device for tests: between guards, and full of NaN at first.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "mala/kernels/attention.h"
#include "mala/kernels/cuda/check.h"
#include "tests/support/tensor.h"

namespace mala::test {

inline constexpr int kNanBytes = 0xff;  // every number made of them is NaN

// Device memory of an exact number of bytes between guards, full of NaN at first or of other bytes.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t size, int filling = kNanBytes) : size_(size) {
    MALA_CUDA_CHECK(cudaMalloc(&start_, size + 2 * kGuard));
    MALA_CUDA_CHECK(cudaMemset(start_, kGuardByte, size + 2 * kGuard));
    MALA_CUDA_CHECK(cudaMemset(data(), filling, size));
  }
  ~DeviceBytes() { cudaFree(start_); }
  DeviceBytes(const DeviceBytes&) = delete;

  std::byte* data() const { return start_ + kGuard; }
  size_t size() const { return size_; }

  bool guards_intact() const {
    std::vector<std::byte> guards(2 * kGuard);
    MALA_CUDA_CHECK(cudaMemcpy(guards.data(), start_, kGuard, cudaMemcpyDeviceToHost));
    MALA_CUDA_CHECK(
        cudaMemcpy(guards.data() + kGuard, data() + size_, kGuard, cudaMemcpyDeviceToHost));
    for (const std::byte guard : guards)
      if (guard != std::byte{kGuardByte}) return false;
    return true;
  }

 private:
  static constexpr size_t kGuard = 256;  // also what keeps the alignment
  static constexpr int kGuardByte = 0xa5;

  std::byte* start_ = nullptr;
  size_t size_;
};

// All memory of a host tensor, on the device.
template <typename T>
class DeviceTensor {
 public:
  explicit DeviceTensor(const Tensor<T>& host)
      : bytes_(host.memory().size() * sizeof(T)), view_(host.view()) {
    if (!host.exists()) return;
    MALA_CUDA_CHECK(
        cudaMemcpy(bytes_.data(), host.memory().data(), bytes_.size(), cudaMemcpyHostToDevice));
    const ptrdiff_t first = view_.data - host.memory().data();
    view_.data = reinterpret_cast<const T*>(bytes_.data()) + first;
  }

  HeadsView<const T> view() const { return view_; }
  HeadsView<T> output() const {
    const HeadsView<const T>& x = view_;
    return {const_cast<T*>(x.data), x.batch,       x.heads,        x.tokens,    x.dim,
            x.batch_stride,         x.head_stride, x.token_stride, x.dim_stride};
  }
  void copy_back(Tensor<T>& host) const {
    if (!host.exists()) return;
    MALA_CUDA_CHECK(cudaMemcpy(const_cast<T*>(host.memory().data()), bytes_.data(), bytes_.size(),
                               cudaMemcpyDeviceToHost));
  }

 private:
  DeviceBytes bytes_;
  HeadsView<const T> view_;
};

// The caller's tables of cos and sin, rows and all that lies between them.
class DeviceRope {
 public:
  explicit DeviceRope(const Rope& host) : cos_(bytes_of(host)), sin_(bytes_of(host)), rope(host) {
    if (host.kind != Rope::Kind::kTable) return;
    MALA_CUDA_CHECK(cudaMemcpy(cos_.data(), host.cos, cos_.size(), cudaMemcpyHostToDevice));
    MALA_CUDA_CHECK(cudaMemcpy(sin_.data(), host.sin, sin_.size(), cudaMemcpyHostToDevice));
    rope.cos = reinterpret_cast<const float*>(cos_.data());
    rope.sin = reinterpret_cast<const float*>(sin_.data());
  }

 private:
  static size_t bytes_of(const Rope& host) {
    return host.kind == Rope::Kind::kTable ? host.table_rows * host.table_stride * sizeof(float)
                                           : 0;
  }
  DeviceBytes cos_, sin_;

 public:
  Rope rope;
};
// Numbers without a shape, such as the sums of a state.
template <typename T>
class DeviceNumbers {
 public:
  explicit DeviceNumbers(size_t count) : bytes_(count * sizeof(T)) {}
  explicit DeviceNumbers(const std::vector<T>& host) : DeviceNumbers(host.size()) {
    MALA_CUDA_CHECK(cudaMemcpy(bytes_.data(), host.data(), bytes_.size(), cudaMemcpyHostToDevice));
  }

  std::span<T> span() const {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  std::vector<T> copy_back() const {
    std::vector<T> host(span().size());
    MALA_CUDA_CHECK(cudaMemcpy(host.data(), bytes_.data(), bytes_.size(), cudaMemcpyDeviceToHost));
    return host;
  }
  bool guards_intact() const { return bytes_.guards_intact(); }

 private:
  DeviceBytes bytes_;
};

}  // namespace mala::test
