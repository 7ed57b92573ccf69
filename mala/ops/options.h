// The words and numbers of torch.ops.mala.attention as the kernels' options, and back.
#pragma once

#include <string_view>

#include "mala/kernels/attention.h"
#include "mala/ops/attention_call.h"

namespace mala::ops {

// Each throws with the list of valid words when `word` is none of them.
Rule rule_from(std::string_view word);
Norm norm_from(std::string_view word);
Feature feature_from(std::string_view word);
Rope::Kind rope_from(std::string_view word);

std::string_view word_for(Rule rule);
std::string_view word_for(Norm norm);
std::string_view word_for(Feature feature);
std::string_view word_for(Rope::Kind rope);

// Throws when a word is unknown or the RoPE arguments do not fit. Reads no data and no token
// counts, so it also serves tensors without memory and with sizes that are symbols.
void check_options(const AttentionCall& call);

// For a call that passed check_options, with real tensors. The result points into rope_table.
AttentionOptions kernel_options(const AttentionCall& call);

}  // namespace mala::ops
