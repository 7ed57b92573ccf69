// The lengths in calls of torch.ops.mala.*: their checks, and the form the kernels read.
#pragma once

#include <cstdint>
#include <vector>

#include "mala/kernels/attention.h"
#include "mala/ops/calls.h"

namespace mala::ops {

// Throw "[where] ..." unless the tensors of lengths hold integers, lie on the CPU, whose side plans
// the call wherever the tokens are, and go with the sizes of the tokens. They read no data, so they
// also serve tensors without memory and with sizes that are symbols; the numbers themselves are for
// the kernels to check.
void check_lengths(const char* where, const AttentionCall& call);
void check_lengths(const char* where, const KeysCall& call);
void check_lengths(const char* where, const QueriesCall& call);

// As check_lengths, of a causal call: cu_seqlens_q alone is enough.
void check_causal_lengths(const char* where, const AttentionCall& call);

// Of grid_widths, those of one side: 0 for q, 1 for k.
std::optional<Tensor> widths_of(const std::optional<Tensor>& widths, int64_t side);

// The numbers of a tensor of integers, with memory; none where it is absent.
std::vector<int64_t> numbers(const std::optional<Tensor>& x);

// The numbers of a call that passed its check, with real tensors. A copy: nobody can change them
// between the kernels' check and their use.
class KernelLengths {
 public:
  explicit KernelLengths(const AttentionCall& call);
  explicit KernelLengths(const KeysCall& call);
  explicit KernelLengths(const QueriesCall& call);

  // Points into this object.
  Lengths view() const;

 private:
  std::vector<int64_t> key_counts_, q_offsets_, k_offsets_, q_widths_, k_widths_;
};

}  // namespace mala::ops
