// Checks of sizes for tensors without memory. With memory the kernels make them.
#include "mala/ops/sizes.h"

#include <array>

namespace mala::ops {
namespace {

using Sizes = std::array<c10::SymInt, 4>;

void check_equal(const char* where, const char* name, const Tensor& x, const Sizes& needed) {
  for (int64_t i = 0; i < 4; ++i) {
    TORCH_SYM_CHECK(x.sym_size(i).sym_eq(needed[i]), "[", where, "] ", name, " has sizes ",
                    x.sym_sizes(), "; with the other inputs they must be ",
                    c10::SymIntArrayRef(needed));
  }
}

void check_not_empty(const char* where, const char* name, const Tensor& x) {
  for (const c10::SymInt& size : x.sym_sizes()) {
    TORCH_SYM_CHECK(size.sym_ge(1), "[", where, "] ", name, " has sizes ", x.sym_sizes(),
                    "; every size must be at least 1");
  }
}

void check_tail_sizes(const char* where, const TailArguments& tail, const Tensor& q,
                      const c10::SymInt& value_dim) {
  const Sizes needed = {q.sym_size(0), q.sym_size(1), q.sym_size(2), value_dim};
  if (tail.local) check_equal(where, "local", *tail.local, needed);
  if (tail.gate) check_equal(where, "gate", *tail.gate, needed);
}

void check_groups(const char* where, const c10::SymInt& heads, const c10::SymInt& kv_heads) {
  TORCH_SYM_CHECK((heads % kv_heads).sym_eq(0), "[", where, "] k has ", kv_heads,
                  " heads but q has ", heads, "; the heads of k and v must divide those of q");
}

void check_dim(const char* where, const char* name, const c10::SymInt& dim) {
  TORCH_SYM_CHECK((dim % 8).sym_eq(0), "[", where, "] ", name, " has head size ", dim,
                  "; it must be a multiple of 8; with real tensors the message says how to pad");
  TORCH_SYM_CHECK(dim.sym_ge(8), "[", where, "] ", name, " has head size ", dim,
                  "; it must be at least 8");
  TORCH_SYM_CHECK(dim.sym_le(256), "[", where, "] ", name, " has head size ", dim,
                  "; it must be 256 or less: split the heads");
}

void check_token_sizes(const char* where, const AttentionCall& call) {
  const auto batch = call.q.sym_size(0), heads = call.q.sym_size(1), dim = call.q.sym_size(3);
  const auto kv_heads = call.k.sym_size(1), keys = call.k.sym_size(2);
  check_dim(where, "q", dim);
  check_dim(where, "v", call.value_dim());
  check_not_empty(where, "q", call.q);
  check_not_empty(where, "k", call.k);
  check_equal(where, "k", call.k, {batch, kv_heads, keys, dim});
  check_equal(where, "v", call.v, {batch, kv_heads, keys, call.value_dim()});
  check_groups(where, heads, kv_heads);
  check_tail_sizes(where, call.tail, call.q, call.value_dim());
}

void check_causal_sizes(const char* where, const AttentionCall& call) {
  check_token_sizes(where, call);
  const auto queries = call.q.sym_size(2), keys = call.k.sym_size(2);
  TORCH_SYM_CHECK(queries.sym_eq(keys), "[", where, "] q has ", queries, " tokens but k has ", keys,
                  "; causal queries and keys are the same tokens: earlier keys are in the state");
}

}  // namespace

void check_sizes(const AttentionCall& call) { check_token_sizes("mala::attention", call); }

void check_sizes(const StatelessCall& call) { check_sizes(call.tokens); }

void check_sizes(const ChunkCall& call) {
  check_causal_sizes("mala::attention_chunk", call.tokens);
}

void check_sizes(const TextCall& call) { check_causal_sizes("mala::attention", call.tokens); }

void check_sizes(const StepCall& call) {
  constexpr const char* kWhere = "mala::attention_step";
  check_causal_sizes(kWhere, call.chunk().tokens);
  TORCH_SYM_CHECK(call.q.sym_size(2).sym_eq(1), "[", kWhere, "] q has ", call.q.sym_size(2),
                  " tokens; a step takes one for each sequence: use attention_chunk for more");
}

void check_sizes(const KeysCall& call) {
  constexpr const char* kWhere = "mala::attention_keys";
  const Tensor &k = call.k, &v = call.v;
  check_dim(kWhere, "k", k.sym_size(3));
  check_dim(kWhere, "v", v.sym_size(3));
  check_not_empty(kWhere, "k", k);
  check_equal(kWhere, "v", v, {k.sym_size(0), k.sym_size(1), k.sym_size(2), v.sym_size(3)});
}

void check_sizes(const QueriesCall& call) {
  constexpr const char* kWhere = "mala::attention_queries";
  check_dim(kWhere, "q", call.q.sym_size(3));
  check_dim(kWhere, "v", call.value_dim());
  check_not_empty(kWhere, "q", call.q);
  check_not_empty(kWhere, "state", call.state);
  check_groups(kWhere, call.q.sym_size(1), call.state.sym_size(1));
  check_tail_sizes(kWhere, call.tail, call.q, call.value_dim());
}

}  // namespace mala::ops
