// The schemas of torch.ops.mala.*, and calls to them through the dispatcher.
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <string>

#include "mala/ops/calls.h"
#include "mala/ops/flat.h"

namespace mala::ops {
namespace {

const std::string kTail = "Tensor? local=None, Tensor? gate=None, ";
const std::string kFeature = "str feature=\"elu1\", ";
const std::string kWeights = "str rule=\"mala\", str? norm=None, " + kFeature +
                             "bool key_mean=True, float? scale=None, float eps=1e-6, ";
const std::string kRope =
    "str rope=\"none\", SymInt rope_offset=0, SymInt grid_width=0, Tensor[]? rope_table=None";
const std::string kRopes =
    "str rope=\"none\", SymInt[2] rope_offset=[0, 0], SymInt[2] grid_width=[0, 0], "
    "Tensor[]? rope_table=None";

const std::string kAttention =
    "Tensor q, Tensor k, Tensor v, *, " + kTail + kWeights + kRopes +
    ", Tensor? key_lengths=None, Tensor? cu_seqlens_q=None, Tensor? cu_seqlens_k=None, "
    "Tensor? grid_widths=None";
const std::string kChunk = kAttention + ", Tensor? state=None, Tensor? count=None";
const std::string kStep = "Tensor q, Tensor k, Tensor v, Tensor(a!) state, Tensor(b!) count, *, " +
                          kTail + kWeights + kRopes;
const std::string kKeys =
    "Tensor k, Tensor v, *, " + kFeature + kRope +
    ", Tensor? key_lengths=None, Tensor? cu_seqlens_k=None, Tensor? grid_widths=None";
const std::string kQueries = "Tensor q, Tensor state, Tensor key_lengths, *, " + kTail + kWeights +
                             kRope + ", Tensor? cu_seqlens_q=None, Tensor? grid_widths=None";

Tensor out_alone(const WholeCall& call) {
  return call.causal ? call_operator(TextCall{call.tokens})
                     : call_operator(StatelessCall{call.tokens});
}

}  // namespace

template <typename Call>
typename Call::Result call_operator(const Call& call) {
  using Signature = typename Flat<Call>::template Signature<typename Call::Result>;
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow((std::string("mala::") + Call::kName).c_str(), "")
                             .template typed<Signature>();
  return std::apply([](const auto&... a) { return op.call(a...); }, Call::fields(call));
}

template WholeCall::Result call_operator(const WholeCall&);
template AttentionCall::Result call_operator(const AttentionCall&);
template StatelessCall::Result call_operator(const StatelessCall&);
template BackwardCall::Result call_operator(const BackwardCall&);
template ChunkCall::Result call_operator(const ChunkCall&);
template TextCall::Result call_operator(const TextCall&);
template ChunkBackwardCall::Result call_operator(const ChunkBackwardCall&);
template StepCall::Result call_operator(const StepCall&);
template KeysCall::Result call_operator(const KeysCall&);
template KeysBackwardCall::Result call_operator(const KeysBackwardCall&);
template QueriesCall::Result call_operator(const QueriesCall&);
template QueriesBackwardCall::Result call_operator(const QueriesBackwardCall&);

}  // namespace mala::ops

TORCH_LIBRARY(mala, m) {
  using namespace mala::ops;
  const auto define = [&](const char* name, const std::string& arguments,
                          const std::string& results) {
    m.def((std::string(name) + "(" + arguments + ") -> " + results).c_str(),
          {at::Tag::pt2_compliant_tag});
  };
  define(WholeCall::kName, kAttention + ", bool causal=False", "Tensor");
  // `state` is what backward needs: (B, Hk, D * E + 2 * D + E), and S in place of B where
  // sequences are packed; see mala/kernels/attention.h.
  define(AttentionCall::kName, kAttention, "(Tensor out, Tensor state)");
  // Where a gradient is followed, autograd calls the operator above in its place.
  define(StatelessCall::kName, kAttention, "Tensor");
  // In all gradients, that of an absent input has no elements.
  define(BackwardCall::kName, "Tensor out_gradient, Tensor state, " + kAttention,
         "(Tensor dq, Tensor dk, Tensor dv, Tensor dlocal, Tensor dgate)");

  // Causal attention to the tokens of a chunk and to those before, which the state stands for.
  define(ChunkCall::kName, kChunk, "(Tensor out, Tensor state, Tensor count)");
  define(TextCall::kName, kAttention, "Tensor");  // the same without any state
  define(ChunkBackwardCall::kName, "Tensor out_gradient, Tensor? state_gradient, " + kChunk,
         "(Tensor dq, Tensor dk, Tensor dv, Tensor dlocal, Tensor dgate, Tensor dstate)");
  define(StepCall::kName, kStep, "Tensor");

  // The two halves of attention, for tokens that are spread over several callers.
  define(KeysCall::kName, kKeys, "Tensor");
  define(KeysBackwardCall::kName, "Tensor state_gradient, " + kKeys, "(Tensor dk, Tensor dv)");
  define(QueriesCall::kName, kQueries, "Tensor");
  define(QueriesBackwardCall::kName, "Tensor out_gradient, " + kQueries,
         "(Tensor dq, Tensor dstate, Tensor dlocal, Tensor dgate)");
}

TORCH_LIBRARY_IMPL(mala, CompositeImplicitAutograd, m) {
  using namespace mala::ops;
  implement<out_alone>(m);
}
