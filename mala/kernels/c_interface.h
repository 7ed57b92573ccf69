// What the C functions share: what C cannot express is checked, views are made, and exceptions
// become codes. Inside the library only.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <string_view>

#include "mala/kernels/attention.h"
#include "mala/kernels/attention_c.h"

namespace mala::c {

// Keeps "[where] message" for mala_last_error.
mala_status fail(mala_status status, const char* where, std::string_view message);

template <typename Run>
mala_status guarded(const char* where, const Run& run) noexcept {
  try {
    run();
    return MALA_OK;
  } catch (const Error& e) {
    return fail(MALA_INVALID_ARGUMENT, where, e.what());
  } catch (const std::bad_alloc&) {
    return fail(MALA_OUT_OF_MEMORY, where, "out of memory; free some, or use fewer threads");
  } catch (const std::exception& e) {
    return fail(MALA_INTERNAL, where, e.what());
  } catch (...) {
    return fail(MALA_INTERNAL, where, "an exception of unknown type; please report it");
  }
}

template <typename... Parts>
void need(bool ok, const Parts&... parts) {
  check(ok, "", parts...);
}

// Where a function writes its answer.
inline void need_bytes(const int64_t* bytes, const char* name = "bytes") {
  need(bytes != nullptr, name, " is null; pass the address of an int64_t");
}

// No struct of ours will be larger, so that a size nobody set cannot send us through memory.
constexpr size_t kLargestStruct = 4096;

// The size of a struct in the first header that had it: no caller's is smaller.
template <typename Struct>
constexpr size_t kFirstSize = sizeof(Struct);
template <>
constexpr size_t kFirstSize<mala_attention_inputs> = offsetof(mala_attention_inputs, key_counts);

// A struct that may grow, with zeros where an older header has no field. Refuses what only a newer
// header can ask for, see attention_c.h.
template <typename Struct>
Struct known(const Struct* given, const char* name) {
  need(given != nullptr, name, " is null; pass the address of a struct that is filled in");
  const size_t size = given->struct_size;
  need(size >= kFirstSize<Struct> && size <= kLargestStruct, name, ".struct_size is ", size, ", ",
       sizeof(Struct), " is needed; set it to the sizeof of the struct");
  const char* bytes = reinterpret_cast<const char*>(given);
  const size_t common = std::min(size, sizeof(Struct));
  need(std::all_of(bytes + common, bytes + size, [](char byte) { return byte == 0; }), name,
       " sets fields that mala ", mala_version(),
       " does not know; leave them zero, or use the library of your header");
  Struct copy{};
  std::memcpy(&copy, bytes, common);
  return copy;
}

template <typename T>
bool is_aligned(const void* data) {
  return reinterpret_cast<uintptr_t>(data) % alignof(T) == 0;
}

template <typename T>
HeadsView<T> optional_view(const mala_tensor& t, const char* name) {
  need(is_aligned<T>(t.data), name, ".data is ", t.data, ", a multiple of ", alignof(T),
       " is needed; check the dtype");
  return {static_cast<T*>(t.data),
          t.sizes[0],
          t.sizes[1],
          t.sizes[2],
          t.sizes[3],
          t.strides[0],
          t.strides[1],
          t.strides[2],
          t.strides[3]};
}

template <typename T>
HeadsView<T> view(const mala_tensor& t, const char* name) {
  need(t.data != nullptr, name, ".data is null; only local and gate may be absent");
  return optional_view<T>(t, name);
}

template <typename T>
HeadsView<T> view(const mala_tensor* t, const char* name) {
  need(t != nullptr, name, " is null; pass the address of a tensor that is filled in");
  return view<T>(*t, name);
}

// `size_from` is the function that tells the size.
template <typename T>
std::span<T> elements(const mala_buffer& buffer, const char* name, const char* size_from) {
  need(buffer.bytes >= 0, name, ".bytes is ", buffer.bytes, "; ask ", size_from, " for the size");
  need(buffer.data != nullptr || buffer.bytes == 0, name, ".data is null with ", buffer.bytes,
       " bytes; allocate what ", size_from, " says");
  need(is_aligned<T>(buffer.data), name, ".data is ", buffer.data, ", a multiple of ", alignof(T),
       " is needed; take it from malloc");
  const size_t bytes = static_cast<size_t>(buffer.bytes);
  need(bytes % sizeof(T) == 0, name, ".bytes is ", bytes, ", a multiple of ", sizeof(T),
       " is needed; ask ", size_from, " for the size");
  return {static_cast<T*>(buffer.data), bytes / sizeof(T)};
}

std::span<const int64_t> integers(const mala_integers& list, const char* name);

AttentionOptions options(const mala_options* given);

template <typename T>
AttentionInputs<T> views(const mala_attention_inputs& inputs) {
  return {.q = view<const T>(inputs.q, "q"),
          .k = view<const T>(inputs.k, "k"),
          .v = view<const T>(inputs.v, "v"),
          .local = optional_view<const T>(inputs.local, "local"),
          .gate = optional_view<const T>(inputs.gate, "gate"),
          .lengths = {.key_counts = integers(inputs.key_counts, "key_counts"),
                      .q_offsets = integers(inputs.q_offsets, "q_offsets"),
                      .k_offsets = integers(inputs.k_offsets, "k_offsets"),
                      .q_widths = integers(inputs.q_widths, "q_widths"),
                      .k_widths = integers(inputs.k_widths, "k_widths")}};
}

// Of a struct with the gradients of q, k, v, local and gate.
template <typename T>
AttentionGradients<T> gradient_views(const auto& gradients) {
  return {.q = view<T>(gradients.q, "gradients.q"),
          .k = view<T>(gradients.k, "gradients.k"),
          .v = view<T>(gradients.v, "gradients.v"),
          .local = optional_view<T>(gradients.local, "gradients.local"),
          .gate = optional_view<T>(gradients.gate, "gradients.gate")};
}

// Calls run(T*), a null pointer that tells the element type of a call.
template <typename Run>
void with_type(int64_t dtype, const Run& run) {
  if (dtype == MALA_FLOAT32) return run(static_cast<float*>(nullptr));
  if (dtype == MALA_FLOAT64) return run(static_cast<double*>(nullptr));
  if (dtype == MALA_BFLOAT16) return run(static_cast<BFloat16*>(nullptr));
  if (dtype == MALA_FLOAT16) return run(static_cast<Float16*>(nullptr));
  need(false, "inputs.dtype is ", dtype, "; use MALA_FLOAT32 (", +MALA_FLOAT32, "), MALA_FLOAT64 (",
       +MALA_FLOAT64, "), MALA_BFLOAT16 (", +MALA_BFLOAT16, ") or MALA_FLOAT16 (", +MALA_FLOAT16,
       ")");
}

// Calls run(inputs as views).
template <typename Run>
void with_inputs(const mala_attention_inputs* given, const Run& run) {
  const mala_attention_inputs inputs = known(given, "inputs");
  with_type(inputs.dtype, [&]<typename T>(T*) { run(views<T>(inputs)); });
}

// (sequences): S where they are packed, else B.
inline int64_t count_sequences(std::span<const int64_t> offsets, int64_t batch) {
  return offsets.empty() ? batch : static_cast<int64_t>(offsets.size()) - 1;
}

}  // namespace mala::c
