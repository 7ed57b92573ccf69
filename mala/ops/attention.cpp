// The operators of torch.ops.mala for C++ callers: their enumerations as the words of the schema.
#include "mala/ops/attention.h"

#include "mala/ops/calls.h"
#include "mala/ops/lengths.h"
#include "mala/ops/options.h"

namespace mala::ops {
namespace {

TailArguments tail_of(const AttentionArguments& arguments) {
  return {arguments.local, arguments.gate};
}

WeightArguments weights_of(const AttentionArguments& arguments) {
  WeightArguments weights{.rule = word_for(arguments.rule),
                          .norm = {},
                          .feature = word_for(arguments.feature),
                          .key_mean = arguments.key_mean,
                          .scale = arguments.scale,
                          .eps = arguments.eps};
  if (arguments.norm) weights.norm = word_for(*arguments.norm);
  return weights;
}

RopePairArguments ropes_of(const AttentionArguments& arguments) {
  return {.rope = word_for(arguments.rope),
          .rope_offset = c10::fromIntArrayRefSlow(arguments.rope_offset),
          .grid_width = c10::fromIntArrayRefSlow(arguments.grid_width),
          .rope_table = at::TensorList(arguments.rope_table)};
}

AttentionCall call_of(const Tensor& q, const Tensor& k, const Tensor& v,
                      const AttentionArguments& arguments) {
  return {.q = q,
          .k = k,
          .v = v,
          .tail = tail_of(arguments),
          .weights = weights_of(arguments),
          .ropes = ropes_of(arguments),
          .lengths = {.key_lengths = arguments.key_lengths,
                      .cu_seqlens_q = arguments.cu_seqlens_q,
                      .cu_seqlens_k = arguments.cu_seqlens_k,
                      .grid_widths = arguments.grid_widths}};
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionArguments& arguments) {
  return call_operator(WholeCall{call_of(q, k, v, arguments), false});
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                        const AttentionArguments& arguments) {
  return call_operator(WholeCall{call_of(q, k, v, arguments), true});
}

Chunk attention_chunk(const Tensor& q, const Tensor& k, const Tensor& v,
                      const std::optional<Tensor>& state, const std::optional<Tensor>& count,
                      const AttentionArguments& arguments) {
  const auto [out, state_after, count_after] =
      call_operator(ChunkCall{call_of(q, k, v, arguments), state, count});
  return {out, state_after, count_after};
}

Tensor attention_step(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& state,
                      const Tensor& count, const AttentionArguments& arguments) {
  TORCH_CHECK(!arguments.key_lengths && !arguments.cu_seqlens_q && !arguments.cu_seqlens_k &&
                  !arguments.grid_widths,
              "[mala::attention_step] the arguments have lengths, but a step takes one token of ",
              "each sequence; leave key_lengths, cu_seqlens and grid_widths out");
  return call_operator(StepCall{.q = q,
                                .k = k,
                                .v = v,
                                .state = state,
                                .count = count,
                                .tail = tail_of(arguments),
                                .weights = weights_of(arguments),
                                .ropes = ropes_of(arguments)});
}

Tensor attention_keys(const Tensor& k, const Tensor& v, const AttentionArguments& arguments) {
  return call_operator(KeysCall{.k = k,
                                .v = v,
                                .feature = word_for(arguments.feature),
                                .rope = ropes_of(arguments).side(1),
                                .key_lengths = arguments.key_lengths,
                                .cu_seqlens_k = arguments.cu_seqlens_k,
                                .grid_widths = widths_of(arguments.grid_widths, 1)});
}

Tensor attention_queries(const Tensor& q, const Tensor& state, const Tensor& key_lengths,
                         const AttentionArguments& arguments) {
  return call_operator(QueriesCall{.q = q,
                                   .state = state,
                                   .key_lengths = key_lengths,
                                   .tail = tail_of(arguments),
                                   .weights = weights_of(arguments),
                                   .rope = ropes_of(arguments).side(0),
                                   .cu_seqlens_q = arguments.cu_seqlens_q,
                                   .grid_widths = widths_of(arguments.grid_widths, 0)});
}

}  // namespace mala::ops
