// The words and numbers of torch.ops.mala.* as the kernels' options, and back.
#pragma once

#include <string_view>

#include "mala/kernels/attention.h"
#include "mala/ops/calls.h"

namespace mala::ops {

std::string_view word_for(Rule rule);
std::string_view word_for(Norm norm);
std::string_view word_for(Feature feature);
std::string_view word_for(Rope::Kind rope);

// Throw "[where] ..." when a word is unknown or the RoPE arguments do not fit. They read no data
// and no token counts, so they also serve tensors without memory and with sizes that are symbols.
void check_feature(const char* where, std::string_view feature);
void check_weights(const char* where, const WeightArguments& weights);
void check_ropes(const char* where, const AttentionCall& call);
// `x` is the tensor whose tokens are rotated.
void check_rope(const char* where, const RopeArguments& rope, const Tensor& x, bool has_widths);

// For calls that passed their checks, with real tensors. The results point into rope_table.
AttentionOptions kernel_options(const AttentionCall& call);
AttentionOptions kernel_options(const KeysCall& call);
AttentionOptions kernel_options(const QueriesCall& call);

}  // namespace mala::ops
