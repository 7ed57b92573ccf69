// What the runs of all kernels share: memory between guards, and inputs that must stay as they are.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "tests/support/attention_problem.h"

namespace mala::test {

// Memory for an exact number of elements that starts full of NaN (of -1 where they are whole
// numbers), with guard bytes on both sides. `misalign` elements lie before the first.
template <typename T>
class PoisonedMemory {
 public:
  PoisonedMemory(int64_t count, int64_t misalign)
      : start_(kGuardBytes + misalign * sizeof(T)),
        size_(count * sizeof(T)),
        memory_(start_ + size_ + kGuardBytes) {
    std::memset(memory_.data(), static_cast<int>(kGuardByte), memory_.size());
    std::memset(memory_.data() + start_, static_cast<int>(kPoison), size_);
  }

  std::span<T> span() { return {reinterpret_cast<T*>(memory_.data() + start_), size_ / sizeof(T)}; }

  bool guards_intact() const {
    for (size_t i = 0; i < memory_.size(); ++i)
      if ((i < start_ || i >= start_ + size_) && memory_[i] != kGuardByte) return false;
    return true;
  }

 private:
  static constexpr size_t kGuardBytes = 64;
  static constexpr std::byte kGuardByte{0xa5};
  static constexpr std::byte kPoison{0xff};  // every float and double made of it is NaN

  size_t start_, size_;
  std::vector<std::byte> memory_;
};

// A copy of all memory of the inputs, to compare with afterwards.
template <typename T>
class InputsCopy {
 public:
  explicit InputsCopy(const AttentionProblem<T>& problem) : problem_(problem) {
    for (const Tensor<T>* x : tensors()) copies_.push_back(x->memory());
  }
  bool unchanged() const {
    for (size_t i = 0; i < copies_.size(); ++i) {
      const std::vector<T>& now = tensors()[i]->memory();
      if (!now.empty() && std::memcmp(now.data(), copies_[i].data(), now.size() * sizeof(T)) != 0)
        return false;
    }
    return true;
  }

 private:
  std::vector<const Tensor<T>*> tensors() const {
    return {&problem_.q,     &problem_.k,    &problem_.v,
            &problem_.local, &problem_.gate, &problem_.out_gradient};
  }
  const AttentionProblem<T>& problem_;
  std::vector<std::vector<T>> copies_;
};

// The five gradients of a problem, in the layouts of its case, between guards.
template <typename T>
struct GuardedGradients {
  explicit GuardedGradients(const AttentionProblem<T>& p)
      : q(make_output(p.about, kDq, p.q)),
        k(make_output(p.about, kDk, p.k)),
        v(make_output(p.about, kDv, p.v)),
        local(make_output(p.about, kDlocal, p.local)),
        gate(make_output(p.about, kDgate, p.gate)) {}

  AttentionGradients<T> views() {
    return {q.view(), k.view(), v.view(), local.view(), gate.view()};
  }
  bool guards_intact() const {
    for (const Tensor<T>* x : {&q, &k, &v, &local, &gate})
      if (!x->guards_intact()) return false;
    return true;
  }
  AttentionResults with(std::vector<double> out) const {
    return {std::move(out), q.values(), k.values(), v.values(), local.values(), gate.values()};
  }

  Tensor<T> q, k, v, local, gate;

 private:
  static Tensor<T> make_output(const AttentionCase& c, Slot slot, const Tensor<T>& like) {
    if (!like.exists()) return {};
    return {like.shape(), c.layouts[slot], Role::kOutput, c.misalign};
  }
};

}  // namespace mala::test
