// mala::attention for C++ callers: their enumerations as the words of the schema.
#include "mala/ops/attention.h"

#include "mala/ops/attention_call.h"
#include "mala/ops/options.h"

namespace mala::ops {

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionArguments& arguments) {
  return call_attention({.q = q,
                         .k = k,
                         .v = v,
                         .local = arguments.local,
                         .gate = arguments.gate,
                         .rule = word_for(arguments.rule),
                         .norm = word_for(arguments.norm),
                         .feature = word_for(arguments.feature),
                         .key_mean = arguments.key_mean,
                         .scale = arguments.scale,
                         .eps = arguments.eps,
                         .rope = word_for(arguments.rope),
                         .rope_offset = c10::fromIntArrayRefSlow(arguments.rope_offset),
                         .grid_width = c10::fromIntArrayRefSlow(arguments.grid_width),
                         .rope_table = at::TensorList(arguments.rope_table),
                         .key_lengths = arguments.key_lengths,
                         .cu_seqlens_q = arguments.cu_seqlens_q,
                         .cu_seqlens_k = arguments.cu_seqlens_k,
                         .grid_widths = arguments.grid_widths});
}

}  // namespace mala::ops
