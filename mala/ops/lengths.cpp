// The lengths in calls of torch.ops.mala.*: their checks, and the form the kernels read.
#include "mala/ops/lengths.h"

namespace mala::ops {
namespace {

// q, or k where there is no q: where the tokens lie, and how many entries they have.
struct Tokens {
  const char* name;
  const Tensor& tensor;
};

void check_integers(const char* where, const char* name, const Tensor& x, const Tokens& tokens) {
  TORCH_CHECK(x.scalar_type() == at::kInt || x.scalar_type() == at::kLong, "[", where, "] ", name,
              " is ", x.scalar_type(), "; int32 and int64 work: call .long() on it");
  const c10::Device device = tokens.tensor.device();
  TORCH_CHECK(!x.is_cuda(), "[", where, "] ", name, " is on ", x.device(), " (", tokens.name,
              " on ", device, "), but the host reads these numbers, and would wait for the GPU; ",
              "call .cpu() on ", name, " before, outside of graphs");
  TORCH_CHECK(x.is_cpu() || x.device() == device, "[", where, "] ", name, " is on ", x.device(),
              " but ", tokens.name, " is on ", device, "; call .cpu() on ", name);
}

// `before` and `after` the count say what there must be one number for.
void check_one_each(const char* where, const Tensor& lengths, const Tokens& tokens,
                    const char* before, const c10::SymInt& count, const char* after) {
  check_integers(where, "key_lengths", lengths, tokens);
  TORCH_CHECK(lengths.dim() == 1, "[", where, "] key_lengths has sizes ", lengths.sym_sizes(),
              "; it must have one dimension: one number for each entry");
  TORCH_SYM_CHECK(lengths.sym_size(0).sym_eq(count), "[", where, "] key_lengths has ",
                  lengths.sym_size(0), " numbers for ", before, count, after,
                  "; it needs one for each entry");
}

void check_key_lengths(const char* where, const Tensor& lengths, const Tokens& tokens,
                       bool has_offsets) {
  TORCH_CHECK(!has_offsets, "[", where, "] key_lengths came with cu_seqlens; packed sequences ",
              "have no spare keys: pass one or the other");
  check_one_each(where, lengths, tokens, "a batch of ", tokens.tensor.sym_size(0), "");
}

void check_offsets(const char* where, const char* name, const Tensor& offsets,
                   const Tokens& tokens) {
  check_integers(where, name, offsets, tokens);
  TORCH_CHECK(offsets.dim() == 1, "[", where, "] ", name, " has sizes ", offsets.sym_sizes(),
              "; it must be (sequences + 1): where each begins, and the end");
  TORCH_SYM_CHECK(offsets.sym_size(0).sym_ge(2), "[", where, "] ", name, " has ",
                  offsets.sym_size(0), " numbers; it needs at least 2: 0, and the end");
  TORCH_SYM_CHECK(tokens.tensor.sym_size(0).sym_eq(1), "[", where, "] cu_seqlens came with a ",
                  "batch of ", tokens.tensor.sym_size(0),
                  "; packed sequences must stand one after the other in a batch of 1");
}

void check_packed(const char* where, const Tensor& offsets_q, const Tensor& offsets_k,
                  const Tokens& tokens) {
  check_offsets(where, "cu_seqlens_q", offsets_q, tokens);
  check_offsets(where, "cu_seqlens_k", offsets_k, tokens);
  const auto q_size = offsets_q.sym_size(0), k_size = offsets_k.sym_size(0);
  TORCH_SYM_CHECK(q_size.sym_eq(k_size), "[", where, "] cu_seqlens_q has ", q_size,
                  " numbers but cu_seqlens_k ", k_size,
                  "; both need one more than there are sequences");
}

// `pairs`: whether there may be a column for q and one for k.
void check_widths(const char* where, const Tensor& widths, const Tokens& tokens,
                  const c10::SymInt& sequences, bool pairs) {
  check_integers(where, "grid_widths", widths, tokens);
  const int64_t rank = widths.dim();
  TORCH_CHECK(rank == 1 || (pairs && rank == 2 && widths.sym_size(1) == 2), "[", where,
              "] grid_widths has sizes ", widths.sym_sizes(), "; it must be (images)",
              pairs ? ", or (images, 2) for q and for k" : "");
  TORCH_SYM_CHECK(widths.sym_size(0).sym_eq(sequences), "[", where, "] grid_widths has ",
                  widths.sym_size(0), " rows for ", sequences, " images; it needs one for each");
}

}  // namespace

void check_lengths(const char* where, const AttentionCall& call) {
  const auto& [key_lengths, cu_seqlens_q, cu_seqlens_k, grid_widths] = call.lengths;
  const Tokens tokens{"q", call.q};
  if (key_lengths) check_key_lengths(where, *key_lengths, tokens, cu_seqlens_q || cu_seqlens_k);
  if (cu_seqlens_q || cu_seqlens_k) {
    TORCH_CHECK(cu_seqlens_q && cu_seqlens_k, "[", where, "] cu_seqlens_",
                cu_seqlens_q ? "q came without cu_seqlens_k" : "k came without cu_seqlens_q",
                "; pass both: the same tensor twice where queries and keys are the same tokens");
    check_packed(where, *cu_seqlens_q, *cu_seqlens_k, tokens);
  }
  if (grid_widths) check_widths(where, *grid_widths, tokens, call.sequences(), true);
}

void check_causal_lengths(const char* where, const AttentionCall& call) {
  AttentionCall both = call;
  if (!both.lengths.cu_seqlens_k) both.lengths.cu_seqlens_k = both.lengths.cu_seqlens_q;
  check_lengths(where, both);
}

void check_lengths(const char* where, const KeysCall& call) {
  const Tokens tokens{"k", call.k};
  if (call.key_lengths) {
    check_key_lengths(where, *call.key_lengths, tokens, call.cu_seqlens_k.has_value());
  }
  if (call.cu_seqlens_k) check_offsets(where, "cu_seqlens_k", *call.cu_seqlens_k, tokens);
  if (call.grid_widths) check_widths(where, *call.grid_widths, tokens, call.sequences(), false);
}

void check_lengths(const char* where, const QueriesCall& call) {
  const Tokens tokens{"q", call.q};
  if (call.cu_seqlens_q) check_offsets(where, "cu_seqlens_q", *call.cu_seqlens_q, tokens);
  check_one_each(where, call.key_lengths, tokens, "", call.sequences(), " sequences");
  if (call.grid_widths) check_widths(where, *call.grid_widths, tokens, call.sequences(), false);
}

std::optional<Tensor> widths_of(const std::optional<Tensor>& widths, int64_t side) {
  return widths && widths->dim() == 2 ? widths->select(1, side) : widths;
}

std::vector<int64_t> numbers(const std::optional<Tensor>& x) {
  if (!x) return {};
  const Tensor dense = x->to(at::kLong).contiguous();
  const int64_t* first = dense.const_data_ptr<int64_t>();
  return {first, first + dense.numel()};
}

KernelLengths::KernelLengths(const AttentionCall& call)
    : key_counts_(numbers(call.lengths.key_lengths)),
      q_offsets_(numbers(call.lengths.cu_seqlens_q)),
      k_offsets_(numbers(call.lengths.cu_seqlens_k)),
      q_widths_(numbers(widths_of(call.lengths.grid_widths, 0))),
      k_widths_(numbers(widths_of(call.lengths.grid_widths, 1))) {}

KernelLengths::KernelLengths(const KeysCall& call)
    : key_counts_(numbers(call.key_lengths)),
      k_offsets_(numbers(call.cu_seqlens_k)),
      k_widths_(numbers(call.grid_widths)) {}

KernelLengths::KernelLengths(const QueriesCall& call)
    : q_offsets_(numbers(call.cu_seqlens_q)), q_widths_(numbers(call.grid_widths)) {}

Lengths KernelLengths::view() const {
  return {.key_counts = key_counts_,
          .q_offsets = q_offsets_,
          .k_offsets = k_offsets_,
          .q_widths = q_widths_,
          .k_widths = k_widths_};
}

}  // namespace mala::ops
