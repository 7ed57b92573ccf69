// The kernels run on a case between guard words, with scratch and state full of NaN.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>

#include "tests/support/attention_problem.h"

namespace mala::test {
namespace {

constexpr size_t kGuardBytes = 64;
constexpr std::byte kGuardByte{0xa5};
constexpr std::byte kPoison{0xff};  // every float and double made of it is NaN

// Memory of an exact size that starts full of NaN, with guard bytes on both sides.
class PoisonedBytes {
 public:
  PoisonedBytes(size_t size, size_t misalign)
      : start_(kGuardBytes + misalign), size_(size), memory_(start_ + size + kGuardBytes) {
    std::memset(memory_.data(), static_cast<int>(kGuardByte), memory_.size());
    std::memset(memory_.data() + start_, static_cast<int>(kPoison), size_);
  }
  std::byte* data() { return memory_.data() + start_; }
  std::span<std::byte> span() { return {data(), size_}; }

  template <typename T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(data()), size_ / sizeof(T)};
  }

  bool guards_intact() const {
    for (size_t i = 0; i < memory_.size(); ++i)
      if ((i < start_ || i >= start_ + size_) && memory_[i] != kGuardByte) return false;
    return true;
  }

 private:
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

template <typename T>
Tensor<T> make_output(const AttentionCase& c, Slot slot, const Tensor<T>& like) {
  if (!like.exists()) return {};
  return {like.shape(), c.layouts[slot], Role::kOutput, c.misalign};
}

template <typename T>
void expect_guards(std::initializer_list<const Tensor<T>*> outputs, const AttentionCase& c) {
  for (const Tensor<T>* x : outputs)
    EXPECT_TRUE(x->guards_intact()) << "memory beside an output was written: " << describe(c);
}

template <typename T>
AttentionResults run_backward(const AttentionProblem<T>& problem, std::span<const T> state) {
  const AttentionCase& c = problem.about;
  Tensor<T> dq = make_output(c, kDq, problem.q), dk = make_output(c, kDk, problem.k),
            dv = make_output(c, kDv, problem.v), dlocal = make_output(c, kDlocal, problem.local),
            dgate = make_output(c, kDgate, problem.gate);
  PoisonedBytes scratch(attention_scratch_bytes(problem.inputs(), problem.options), c.misalign);
  attention_backward<T>(problem.inputs(), problem.options, problem.out_gradient.view(), state,
                        {dq.view(), dk.view(), dv.view(), dlocal.view(), dgate.view()},
                        scratch.span());
  expect_guards({&dq, &dk, &dv, &dlocal, &dgate}, c);
  EXPECT_TRUE(scratch.guards_intact()) << "memory beside scratch was written: " << describe(c);
  return {.q = dq.values(),
          .k = dk.values(),
          .v = dv.values(),
          .local = dlocal.values(),
          .gate = dgate.values()};
}

}  // namespace

template <typename T>
AttentionResults run_kernels(const AttentionProblem<T>& problem, Pass pass) {
  const AttentionCase& c = problem.about;
  const InputsCopy<T> before(problem);
  Tensor<T> out(problem.out_shape(), c.layouts[kOut], Role::kOutput, c.misalign);
  const int64_t state_size = attention_state_size(c.sequences(), c.kv_heads(), c.dim, c.value_dim);
  PoisonedBytes state(state_size * sizeof(T), c.misalign * sizeof(T));
  PoisonedBytes scratch(attention_scratch_bytes(problem.inputs(), problem.options), c.misalign);

  attention_forward<T>(problem.inputs(), problem.options, out.view(), state.template as<T>(),
                       scratch.span());
  expect_guards({&out}, c);
  EXPECT_TRUE(scratch.guards_intact()) << "memory beside scratch was written: " << describe(c);

  AttentionResults results;
  if (pass == Pass::kForwardBackward) results = run_backward<T>(problem, state.template as<T>());
  results.out = out.values();
  EXPECT_TRUE(state.guards_intact()) << "memory beside the state was written: " << describe(c);
  EXPECT_TRUE(before.unchanged()) << "an input was written: " << describe(c);
  return results;
}

template AttentionResults run_kernels(const AttentionProblem<float>&, Pass);
template AttentionResults run_kernels(const AttentionProblem<double>&, Pass);

}  // namespace mala::test
