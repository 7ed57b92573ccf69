// Strides of every layout, and the guard words between elements.
#include "tests/support/tensor.h"

#include <algorithm>

namespace mala::test {
namespace {

constexpr int64_t kParts = 4;  // of a packed projection
constexpr int64_t kPart = 1;   // the one a packed tensor is

struct Strides {
  int64_t batch, head, token, dim, first = 0;
};

Strides strides_of(const Shape& s, Layout layout) {
  const int64_t row = s.heads * s.dim;
  switch (layout) {
    case Layout::kTokensFirst:
      return {s.tokens * row, s.dim, row, 1};
    case Layout::kPacked:
      return {s.tokens * kParts * row, s.dim, kParts * row, 1, kPart * row};
    case Layout::kChannelsFirst:
      return {row * s.tokens, s.dim * s.tokens, 1, s.tokens};
    case Layout::kPadded: {
      const int64_t token = s.dim + 3, head = s.tokens * token + 5;
      return {s.heads * head + 7, head, token, 1};
    }
    case Layout::kEveryOther:
      return {2 * s.tokens * row, 2 * s.tokens * s.dim, 2 * s.dim, 2};
    case Layout::kReversed:
      return {s.tokens * row, s.tokens * s.dim, -s.dim, 1, (s.tokens - 1) * s.dim};
    case Layout::kShared:
      return {0, s.tokens * s.dim, s.dim, 1};
    case Layout::kDense:
      break;
  }
  return {s.tokens * row, s.tokens * s.dim, s.dim, 1};
}

}  // namespace

std::string name(Layout layout) {
  static const char* const kNames[] = {"dense",  "tokens_first", "packed",   "channels_first",
                                       "padded", "every_other",  "reversed", "shared"};
  return kNames[static_cast<int>(layout)];
}

std::vector<Layout> output_layouts() {
  return {Layout::kDense,  Layout::kTokensFirst, Layout::kPacked,  Layout::kChannelsFirst,
          Layout::kPadded, Layout::kEveryOther,  Layout::kReversed};
}

std::vector<Layout> input_layouts() {
  std::vector<Layout> layouts = output_layouts();
  layouts.push_back(Layout::kShared);
  return layouts;
}

template <typename T>
Tensor<T>::Tensor(Shape shape, Layout layout, Role role, int64_t misalign) : shape_(shape) {
  const Strides s = strides_of(shape, layout);
  layout_ = {nullptr, shape.batch, shape.heads, shape.tokens, shape.dim,
             s.batch, s.head,      s.token,     s.dim};
  const int64_t guard = role == Role::kOutput ? kGuard : 0;
  first_ = guard + misalign + s.first;
  const int64_t last = first_ + (shape.batch - 1) * s.batch + (shape.heads - 1) * s.head +
                       (shape.tokens - 1) * std::max<int64_t>(0, s.token) + (shape.dim - 1) * s.dim;
  memory_.assign(last + 1 + guard, guard_word<T>());
}

template <typename T>
HeadsView<T> Tensor<T>::view() {
  HeadsView<T> view = layout_;
  if (exists()) view.data = memory_.data() + first_;
  return view;
}

template <typename T>
HeadsView<const T> Tensor<T>::view() const {
  HeadsView<const T> view = layout_;
  if (exists()) view.data = memory_.data() + first_;
  return view;
}

template <typename T>
template <typename Visit>
void Tensor<T>::each_element(Visit&& visit) {
  const HeadsView<T> x = view();
  for (int64_t b = 0; b < x.batch; ++b)
    for (int64_t h = 0; h < x.heads; ++h)
      for (int64_t i = 0; i < x.tokens; ++i)
        for (int64_t d = 0; d < x.dim; ++d) visit(x.head(b, h).at(i, d));
}

template <typename T>
void Tensor<T>::fill(Random& random, double low, double high) {
  each_element([&](T& x) { x = rounded<T>(random.uniform(low, high)); });
}

template <typename T>
void Tensor<T>::fill(double value) {
  each_element([value](T& x) { x = rounded<T>(value); });
}

template <typename T>
std::vector<double> Tensor<T>::values() const {
  std::vector<double> values;
  values.reserve(shape_.size());
  const_cast<Tensor*>(this)->each_element([&](T& x) { values.push_back(to_float(x)); });
  return values;
}

template <typename T>
void Tensor<T>::set_values(const std::vector<double>& values) {
  size_t i = 0;
  each_element([&](T& x) { x = rounded<T>(values[i++]); });
}

template <typename T>
bool Tensor<T>::guards_intact() const {
  std::vector<bool> owned(memory_.size());
  const_cast<Tensor*>(this)->each_element([&](T& x) { owned[&x - memory_.data()] = true; });
  for (size_t i = 0; i < memory_.size(); ++i)
    if (!owned[i] && !is_guard_word(memory_[i])) return false;
  return true;
}

template class Tensor<float>;
template class Tensor<double>;
template class Tensor<BFloat16>;
template class Tensor<Float16>;

}  // namespace mala::test
