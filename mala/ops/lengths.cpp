// The lengths of a call of torch.ops.mala.attention: their checks, and the form the kernels read.
#include "mala/ops/lengths.h"

namespace mala::ops {
namespace {

void check_integers(const char* name, const Tensor& x, const Tensor& q) {
  TORCH_CHECK(x.scalar_type() == at::kInt || x.scalar_type() == at::kLong, "[mala::attention] ",
              name, " is ", x.scalar_type(), "; int32 and int64 work: call .long() on it");
  TORCH_CHECK(x.device() == q.device(), "[mala::attention] ", name, " is on ", x.device(),
              " but q is on ", q.device(), "; move it there");
}

void check_key_lengths(const Tensor& lengths, const AttentionCall& call) {
  check_integers("key_lengths", lengths, call.q);
  TORCH_CHECK(!call.cu_seqlens_q && !call.cu_seqlens_k,
              "[mala::attention] key_lengths came with cu_seqlens; packed sequences have no spare ",
              "keys: pass one or the other");
  TORCH_CHECK(lengths.dim() == 1, "[mala::attention] key_lengths has sizes ", lengths.sym_sizes(),
              "; it must be (batch): one number for each entry");
  TORCH_SYM_CHECK(lengths.sym_size(0).sym_eq(call.q.sym_size(0)), "[mala::attention] key_lengths ",
                  "has ", lengths.sym_size(0), " numbers for a batch of ", call.q.sym_size(0),
                  "; it needs one for each entry");
}

void check_offsets(const char* name, const Tensor& offsets, const Tensor& q) {
  check_integers(name, offsets, q);
  TORCH_CHECK(offsets.dim() == 1, "[mala::attention] ", name, " has sizes ", offsets.sym_sizes(),
              "; it must be (sequences + 1): where each begins, and the end");
  TORCH_SYM_CHECK(offsets.sym_size(0).sym_ge(2), "[mala::attention] ", name, " has ",
                  offsets.sym_size(0), " numbers; it needs at least 2: 0, and the end");
}

void check_packed(const AttentionCall& call) {
  TORCH_CHECK(call.cu_seqlens_q && call.cu_seqlens_k, "[mala::attention] cu_seqlens_",
              call.cu_seqlens_q ? "q came without cu_seqlens_k" : "k came without cu_seqlens_q",
              "; pass both: the same tensor twice where queries and keys are the same tokens");
  check_offsets("cu_seqlens_q", *call.cu_seqlens_q, call.q);
  check_offsets("cu_seqlens_k", *call.cu_seqlens_k, call.q);
  const auto q_size = call.cu_seqlens_q->sym_size(0), k_size = call.cu_seqlens_k->sym_size(0);
  TORCH_SYM_CHECK(q_size.sym_eq(k_size), "[mala::attention] cu_seqlens_q has ", q_size,
                  " numbers but cu_seqlens_k ", k_size,
                  "; both need one more than there are sequences");
  TORCH_SYM_CHECK(call.q.sym_size(0).sym_eq(1), "[mala::attention] cu_seqlens came with a batch ",
                  "of ", call.q.sym_size(0),
                  "; packed sequences must stand one after the other in a batch of 1");
}

void check_widths(const Tensor& widths, const AttentionCall& call) {
  check_integers("grid_widths", widths, call.q);
  const int64_t rank = widths.dim();
  TORCH_CHECK(rank == 1 || (rank == 2 && widths.sym_size(1) == 2),
              "[mala::attention] grid_widths has sizes ", widths.sym_sizes(),
              "; it must be (images), or (images, 2) for q and for k");
  TORCH_SYM_CHECK(widths.sym_size(0).sym_eq(call.sequences()), "[mala::attention] grid_widths has ",
                  widths.sym_size(0), " rows for ", call.sequences(),
                  " images; it needs one for each");
}

std::vector<int64_t> numbers(const std::optional<Tensor>& x) {
  if (!x) return {};
  const Tensor dense = x->to(at::kLong).contiguous();
  const int64_t* first = dense.const_data_ptr<int64_t>();
  return {first, first + dense.numel()};
}

// side: 0 for q, 1 for k.
std::vector<int64_t> widths_of(const std::optional<Tensor>& widths, int64_t side) {
  return numbers(widths && widths->dim() == 2 ? widths->select(1, side) : widths);
}

}  // namespace

void check_lengths(const AttentionCall& call) {
  if (call.key_lengths) check_key_lengths(*call.key_lengths, call);
  if (call.cu_seqlens_q || call.cu_seqlens_k) check_packed(call);
  if (call.grid_widths) check_widths(*call.grid_widths, call);
}

KernelLengths::KernelLengths(const AttentionCall& call)
    : key_counts_(numbers(call.key_lengths)),
      q_offsets_(numbers(call.cu_seqlens_q)),
      k_offsets_(numbers(call.cu_seqlens_k)),
      q_widths_(widths_of(call.grid_widths, 0)),
      k_widths_(widths_of(call.grid_widths, 1)) {}

Lengths KernelLengths::view() const {
  return {.key_counts = key_counts_,
          .q_offsets = q_offsets_,
          .k_offsets = k_offsets_,
          .q_widths = q_widths_,
          .k_widths = k_widths_};
}

}  // namespace mala::ops
