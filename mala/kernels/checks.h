// The one place where a call is checked, before anything is written.
#pragma once

#include <array>
#include <initializer_list>
#include <span>

#include "mala/kernels/attention.h"
#include "mala/kernels/split.h"

namespace mala {

// A tensor or a buffer, and what messages call it.
template <typename T>
struct Named {
  const char* name;
  HeadsView<T> view;
};

template <typename T>
using Tensors = std::span<const Named<T>>;

// The same tensors, as ones that are only read.
template <typename T, size_t kCount>
std::array<Named<const T>, kCount> read_only(const std::array<Named<T>, kCount>& tensors) {
  std::array<Named<const T>, kCount> views;
  for (size_t i = 0; i < kCount; ++i) views[i] = {tensors[i].name, tensors[i].view};
  return views;
}

struct NamedBuffer {
  const char* name;
  std::span<const std::byte> bytes;
  bool only_read = false;
};

// How many sequences there are: those that are packed, or the batch entries.
inline int64_t sequences_of(std::span<const int64_t> offsets, int64_t batch) {
  return offsets.empty() ? batch : static_cast<int64_t>(offsets.size()) - 1;
}

// Throws mala::Error("[where] what came, what is needed, what to try").
template <typename T>
void check_inputs(const char* where, const AttentionInputs<T>& inputs,
                  const AttentionOptions& options);

// The same for the halves of a call; `value_dim` is the head size of the values in the state.
template <typename T>
void check_keys_inputs(const char* where, const KeysInputs<T>& inputs,
                       const AttentionOptions& options);
template <typename T>
void check_queries_inputs(const char* where, const QueriesInputs<T>& inputs,
                          const AttentionOptions& options, const TotalState<T>& state,
                          int64_t value_dim);

// `name` is one more tensor that the call reads, of the shape that `like` has but for its last
// size.
template <typename T>
void check_input_like(const char* where, const char* name, const HeadsView<const T>& input,
                      const HeadsView<const T>& like, int64_t dim);

// `name` is a tensor that the call writes, of the shape that `like` has but for its last size,
// no two of whose elements share an address.
template <typename T>
void check_output(const char* where, const char* name, const HeadsView<T>& output,
                  const HeadsView<const T>& like, int64_t dim);

// The gradient of an input that may be absent is given exactly where the input is.
template <typename T>
void check_tail_gradient(const char* where, const char* name, const HeadsView<T>& gradient,
                         const HeadsView<const T>& input);

// The outputs share no element with an input, nor with each other.
template <typename T>
void check_all_apart(const char* where, Tensors<T> outputs, Tensors<const T> inputs);

// The buffers share no byte with a tensor or the gaps between its elements, nor with each other,
// unless both are only read.
template <typename T>
void check_buffers_apart(const char* where, std::initializer_list<NamedBuffer> buffers,
                         std::initializer_list<Tensors<const T>> tensors);

void check_size(const char* where, const char* name, int64_t came, int64_t needed,
                const char* to_try);
void check_state_size(const char* where, const char* name, int64_t came, int64_t needed);

}  // namespace mala
