// Checks of a call's memory: what it writes shares no byte with anything else, and there is enough.
#include "mala/core/overlap.h"
#include "mala/kernels/checks.h"

namespace mala {

template <typename T>
void check_all_apart(const char* where, Tensors<T> outputs, Tensors<const T> inputs) {
  auto check_apart = [where](const Named<T>& output, const char* other, const auto& view) {
    check(!view.data || !overlap(footprint(output.view), footprint(view)), where, output.name,
          " shares memory with ", other,
          ", which the call still needs; write to a tensor of its own");
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].view.data) continue;
    for (const auto& [name, view] : inputs) check_apart(outputs[i], name, view);
    for (const auto& [name, view] : outputs.first(i)) check_apart(outputs[i], name, view);
  }
}

template <typename T>
void check_buffers_apart(const char* where, std::initializer_list<NamedBuffer> buffers,
                         std::initializer_list<Tensors<const T>> tensors) {
  auto range_of = [](std::span<const std::byte> bytes) {
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    return ByteRange{begin, begin + bytes.size()};
  };
  auto check_apart = [&](const NamedBuffer& buffer, const char* other, const ByteRange& bytes) {
    check(!range_of(buffer.bytes).overlaps(bytes), where, buffer.name, " shares memory with ",
          other, "; give it a buffer of its own");
  };
  for (const NamedBuffer& buffer : buffers) {
    if (buffer.bytes.empty()) continue;
    for (const Tensors<const T>& some : tensors) {
      for (const auto& [name, view] : some) {
        if (view.data) check_apart(buffer, name, byte_range(footprint(view)));
      }
    }
    for (const NamedBuffer* other = buffers.begin(); other != &buffer; ++other) {
      if (other->bytes.empty() || (buffer.only_read && other->only_read)) continue;
      check_apart(buffer, other->name, range_of(other->bytes));
    }
  }
}

void check_size(const char* where, const char* name, int64_t came, int64_t needed,
                const char* to_try) {
  check(came >= needed, where, name, " has ", came, " but ", needed, " are needed; ", to_try);
}

void check_state_size(const char* where, const char* name, int64_t came, int64_t needed) {
  check(came == needed, where, name, " has ", came, " numbers but ", needed,
        " are needed; ask attention_state_size for its size");
}

#define MALA_INSTANTIATE(T)                                                          \
  template void check_all_apart(const char*, Tensors<T>, Tensors<const T>);          \
  template void check_buffers_apart(const char*, std::initializer_list<NamedBuffer>, \
                                    std::initializer_list<Tensors<const T>>)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(double);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala
