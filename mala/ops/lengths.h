// The lengths of a call of torch.ops.mala.attention: their checks, and the form the kernels read.
#pragma once

#include <cstdint>
#include <vector>

#include "mala/kernels/attention.h"
#include "mala/ops/attention_call.h"

namespace mala::ops {

// Throws unless the tensors of lengths hold integers, lie on the device of q and go with its
// sizes. Reads no data, so it also serves tensors without memory and with sizes that are symbols;
// the numbers themselves are for the kernels to check.
void check_lengths(const AttentionCall& call);

// The numbers of a call that passed check_lengths, with real tensors. A copy: nobody can change
// them between the kernels' check and their use.
class KernelLengths {
 public:
  explicit KernelLengths(const AttentionCall& call);

  // Points into this object.
  Lengths view() const;

 private:
  std::vector<int64_t> key_counts_, q_offsets_, k_offsets_, q_widths_, k_widths_;
};

}  // namespace mala::ops
