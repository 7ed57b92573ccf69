// The one place where a call is checked, before anything is written.
#pragma once

#include "mala/kernels/attention.h"

namespace mala {

// Throws mala::Error("[where] what came, what is needed, what to try").
template <typename T>
void check_inputs(const char* where, const AttentionInputs<T>& inputs,
                  const AttentionOptions& options);

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

// The output shares no element with the other tensor.
template <typename T>
void check_apart(const char* where, const char* name, const HeadsView<T>& output,
                 const char* other_name, const HeadsView<const T>& other);

// A buffer shares no byte with a tensor, nor with the gaps between its elements.
template <typename T>
void check_buffer_apart(const char* where, const char* name, std::span<const std::byte> buffer,
                        const char* other_name, const HeadsView<const T>& other);

void check_size(const char* where, const char* name, int64_t came, int64_t needed,
                const char* to_try);

}  // namespace mala
