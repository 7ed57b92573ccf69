// Tensors of (batch, heads, tokens, dim) in every layout a caller may use, with guard words in
// all memory around and between their elements.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "mala/core/dtypes.h"
#include "mala/core/views.h"
#include "tests/support/random.h"

namespace mala::test {

// A NaN that no arithmetic makes: written where nobody may write, it shows writes bit by bit, and
// a kernel that lets it into a sum spoils its result.
template <typename T>
T guard_word() {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<float>(uint32_t{0x7fc0dead});
  if constexpr (std::is_same_v<T, double>)
    return std::bit_cast<double>(uint64_t{0x7ff8deadbeefdead});
  if constexpr (sizeof(T) == 2) return T{uint16_t{0x7fed}};
}

template <typename T>
bool is_guard_word(T x) {
  using Wide = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, Wide>;
  return std::bit_cast<Bits>(x) == std::bit_cast<Bits>(guard_word<T>());
}

// The nearest number of the type.
template <typename T>
T rounded(double x) {
  return round_to<T>(static_cast<Compute<T>>(x));
}

enum class Layout {
  kDense,          // (B, H, N, D)
  kTokensFirst,    // (B, N, H, D)
  kPacked,         // one of four parts of a projection, (B, N, 4, H, D)
  kChannelsFirst,  // (B, C, N) with C = H * D: an image
  kPadded,         // (B, H, N, D) with room after every row, head and batch entry
  kEveryOther,     // (B, H, N, D, 2), of which every other element
  kReversed,       // (B, H, N, D) from the last token back: a negative stride
  kShared,         // one batch entry for all of them: batch stride 0, inputs alone
};

std::string name(Layout layout);

// The layouts in which no two elements share memory, so that they can be written.
std::vector<Layout> output_layouts();
std::vector<Layout> input_layouts();

struct Shape {
  int64_t batch = 1, heads = 1, tokens = 1, dim = 8;
  int64_t size() const { return batch * heads * tokens * dim; }
};

// Inputs have memory for their elements and no more, so that AddressSanitizer sees every read
// beyond; outputs have kGuard words on both sides.
enum class Role { kInput, kOutput };

template <typename T>
class Tensor {
 public:
  // `misalign` elements lie between the start of the memory and the first element.
  Tensor(Shape shape, Layout layout, Role role = Role::kInput, int64_t misalign = 0);
  Tensor() = default;

  bool exists() const { return !memory_.empty(); }
  HeadsView<T> view();
  HeadsView<const T> view() const;
  const Shape& shape() const { return shape_; }

  void fill(Random& random, double low, double high);
  void fill(double value);

  // The elements in (B, H, N, D) order.
  std::vector<double> values() const;
  void set_values(const std::vector<double>& values);

  // All memory, to see whether anything changed.
  const std::vector<T>& memory() const { return memory_; }

  // Whether all memory that belongs to no element is as it was made.
  bool guards_intact() const;

 private:
  static constexpr int64_t kGuard = 32;

  template <typename Visit>
  void each_element(Visit&& visit);

  Shape shape_;
  HeadsView<T> layout_;  // without data
  int64_t first_ = 0;    // the index of element (0, 0, 0, 0)
  std::vector<T> memory_;
};

extern template class Tensor<float>;
extern template class Tensor<double>;
extern template class Tensor<BFloat16>;
extern template class Tensor<Float16>;

}  // namespace mala::test
