// The C interface: checks what C cannot express, calls the C++ entries, turns exceptions into
// codes.
#include "mala/kernels/attention_c.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include "mala/kernels/attention.h"

namespace mala {
namespace {

// Plain characters, because reporting that memory ran out must not allocate.
thread_local char last_error[1024] = "";

// Keeps "[where] message". Where the C++ entries name themselves, the caller reads the function it
// called instead; other names in brackets, such as a variable of the environment, stay.
mala_status fail(mala_status status, const char* where, std::string_view message) {
  if (message.starts_with("[]") || message.starts_with("[attention_")) {
    message.remove_prefix(std::min(message.find(']') + 2, message.size()));
  }
  std::snprintf(last_error, sizeof last_error, "[%s] %.*s", where, static_cast<int>(message.size()),
                message.data());
  return status;
}

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
       " sets fields that mala ", MALA_VERSION,
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

template <typename T>
std::span<T> elements(const mala_buffer& buffer, const char* name) {
  need(buffer.bytes >= 0, name, ".bytes is ", buffer.bytes, "; ask mala_attention_", name,
       "_bytes for the size");
  need(buffer.data != nullptr || buffer.bytes == 0, name, ".data is null with ", buffer.bytes,
       " bytes; allocate what mala_attention_", name, "_bytes says");
  need(is_aligned<T>(buffer.data), name, ".data is ", buffer.data, ", a multiple of ", alignof(T),
       " is needed; take it from malloc");
  return {static_cast<T*>(buffer.data), static_cast<size_t>(buffer.bytes) / sizeof(T)};
}

std::span<const int64_t> integers(const mala_integers& list, const char* name) {
  need(list.data ? list.count > 0 : list.count == 0, name, ".count is ", list.count, " with data ",
       list.data ? "given" : "null", "; give as many as there are, or zero in both for none");
  need(is_aligned<int64_t>(list.data), name, ".data is ", list.data, ", a multiple of ",
       alignof(int64_t), " is needed; it must point to int64_t");
  return {list.data, static_cast<size_t>(list.count)};
}

Lengths lengths(const mala_attention_inputs& inputs) {
  return {.key_counts = integers(inputs.key_counts, "key_counts"),
          .q_offsets = integers(inputs.q_offsets, "q_offsets"),
          .k_offsets = integers(inputs.k_offsets, "k_offsets"),
          .q_widths = integers(inputs.q_widths, "q_widths"),
          .k_widths = integers(inputs.k_widths, "k_widths")};
}

template <typename T>
AttentionInputs<T> views(const mala_attention_inputs& inputs) {
  return {.q = view<const T>(inputs.q, "q"),
          .k = view<const T>(inputs.k, "k"),
          .v = view<const T>(inputs.v, "v"),
          .local = optional_view<const T>(inputs.local, "local"),
          .gate = optional_view<const T>(inputs.gate, "gate"),
          .lengths = lengths(inputs)};
}

template <typename T>
AttentionGradients<T> views(const mala_attention_gradients& gradients) {
  return {.q = view<T>(gradients.q, "gradients.q"),
          .k = view<T>(gradients.k, "gradients.k"),
          .v = view<T>(gradients.v, "gradients.v"),
          .local = optional_view<T>(gradients.local, "gradients.local"),
          .gate = optional_view<T>(gradients.gate, "gradients.gate")};
}

// The C++ enumerations count as the C ones do.
template <typename Enum>
Enum choice(int64_t value, Enum last, const char* name) {
  need(value >= 0 && value <= static_cast<int64_t>(last), name, " is ", value, ", 0 to ",
       static_cast<int64_t>(last), " is needed; use the constants of attention_c.h");
  return static_cast<Enum>(value);
}

Rope rope(const mala_rope& given, const char* name) {
  return {.kind = choice(given.kind, Rope::Kind::kTable, name),
          .offset = given.offset,
          .width = given.width,
          .cos = given.cos,
          .sin = given.sin,
          .table_rows = given.table_rows,
          .table_stride = given.table_stride};
}

AttentionOptions convert(const mala_options& given) {
  AttentionOptions options{.rule = choice(given.rule, Rule::kInline, "options.rule"),
                           .norm = choice(given.norm, Norm::kBalanced, "options.norm"),
                           .feature = choice(given.feature, Feature::kIdentity, "options.feature"),
                           .key_mean = given.key_mean != 0,
                           .scale = {},
                           .eps = given.eps,
                           .q_rope = rope(given.q_rope, "options.q_rope.kind"),
                           .k_rope = rope(given.k_rope, "options.k_rope.kind")};
  if (given.scale != 0) options.scale = given.scale;
  return options;
}

// Calls run(inputs as views) with the element type of a call.
template <typename Run>
void with_inputs(const mala_attention_inputs* given, const Run& run) {
  const mala_attention_inputs inputs = known(given, "inputs");
  if (inputs.dtype == MALA_FLOAT32) return run(views<float>(inputs));
  if (inputs.dtype == MALA_FLOAT64) return run(views<double>(inputs));
  if (inputs.dtype == MALA_BFLOAT16) return run(views<BFloat16>(inputs));
  if (inputs.dtype == MALA_FLOAT16) return run(views<Float16>(inputs));
  need(false, "inputs.dtype is ", inputs.dtype, "; use MALA_FLOAT32 (", +MALA_FLOAT32,
       "), MALA_FLOAT64 (", +MALA_FLOAT64, "), MALA_BFLOAT16 (", +MALA_BFLOAT16,
       ") or MALA_FLOAT16 (", +MALA_FLOAT16, ")");
}

template <typename T>
int64_t state_bytes(const AttentionInputs<T>& in) {
  attention_scratch_bytes(in, {});  // for its checks of all sizes
  const std::span<const int64_t> offsets = in.lengths.q_offsets;
  const int64_t sequences = offsets.empty() ? in.q.batch : static_cast<int64_t>(offsets.size()) - 1;
  return attention_state_size(sequences, in.k.heads, in.q.dim, in.v.dim) *
         static_cast<int64_t>(sizeof(Compute<T>));
}

}  // namespace
}  // namespace mala

using namespace mala;

const char* mala_last_error(void) { return last_error; }

const char* mala_version(void) { return MALA_VERSION; }

mala_status mala_attention_state_bytes(const mala_attention_inputs* inputs, int64_t* bytes) {
  return guarded("mala_attention_state_bytes", [&] {
    need(bytes != nullptr, "bytes is null; pass the address of an int64_t");
    with_inputs(inputs, [&](const auto& in) { *bytes = state_bytes(in); });
  });
}

mala_status mala_attention_scratch_bytes(const mala_attention_inputs* inputs,
                                         const mala_options* options, int64_t* bytes) {
  return guarded("mala_attention_scratch_bytes", [&] {
    need(bytes != nullptr, "bytes is null; pass the address of an int64_t");
    with_inputs(inputs, [&](const auto& in) {
      *bytes = attention_scratch_bytes(in, convert(known(options, "options")));
    });
  });
}

mala_status mala_attention_forward(const mala_attention_inputs* inputs, const mala_options* options,
                                   const mala_tensor* out, mala_buffer state, mala_buffer scratch) {
  return guarded("mala_attention_forward", [&] {
    with_inputs(inputs, [&]<typename T>(const AttentionInputs<T>& in) {
      attention_forward<T>(in, convert(known(options, "options")), view<T>(out, "out"),
                           elements<Compute<T>>(state, "state"),
                           elements<std::byte>(scratch, "scratch"));
    });
  });
}

mala_status mala_attention_backward(const mala_attention_inputs* inputs,
                                    const mala_options* options, const mala_tensor* out_gradient,
                                    mala_buffer state, const mala_attention_gradients* gradients,
                                    mala_buffer scratch) {
  return guarded("mala_attention_backward", [&] {
    with_inputs(inputs, [&]<typename T>(const AttentionInputs<T>& in) {
      attention_backward<T>(
          in, convert(known(options, "options")), view<const T>(out_gradient, "out_gradient"),
          elements<const Compute<T>>(state, "state"), views<T>(known(gradients, "gradients")),
          elements<std::byte>(scratch, "scratch"));
    });
  });
}
