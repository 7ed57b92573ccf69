// The errors of the kernels in the words of torch.ops.mala.*.
#include "mala/ops/kernel_call.h"

#include <utility>

namespace mala::ops {
namespace {

// What the kernels call it, and what the schemas do.
constexpr std::pair<std::string_view, std::string_view> kNames[] = {
    {"key_counts", "key_lengths"}, {"q_offsets", "cu_seqlens_q"},
    {"k_offsets", "cu_seqlens_k"}, {"q_widths", "grid_widths"},
    {"k_widths", "grid_widths"},   {"causal_forward", "attention_chunk"},
};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

}  // namespace

std::string in_torch_words(const char* where, std::string_view message) {
  // Kernels begin with their own name in brackets, which says nothing here, failures of a device
  // with the call that failed, which does.
  const size_t end = message.starts_with('[') ? message.find("] ") : std::string_view::npos;
  const bool has_name = end != std::string_view::npos;
  std::string text(has_name ? message.substr(end + 2) : message);
  if (has_name && message.starts_with("[cuda")) text = str(message.substr(1, end - 1), " ", text);
  for (const auto& [from, to] : kNames) replace_all(text, from, to);
  return str("[", where, "] ", text);
}

}  // namespace mala::ops
