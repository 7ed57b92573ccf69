// Decodes with the kernels and with the torch operator.
#include "bench/support/decode.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "bench/support/torch_attention.h"
#include "mala/kernels/causal.h"

namespace mala::bench {

namespace {

using at::Tensor;

// A run updates about this much state: milliseconds of work.
constexpr int64_t kElementsOfRun = int64_t{4} << 20;

// Of sequences that begin.
struct State {
  Tensor sums;    // (B, H, D * D + 3 * D), double
  Tensor counts;  // (B)
};

State empty_state(const Shape& shape) {
  const int64_t of_head = attention_state_size(1, 1, shape.dim, shape.dim);
  return {at::zeros({shape.batch, shape.heads, of_head}, at::kDouble),
          at::zeros({shape.batch}, at::kLong)};
}

// Single tokens, made beforehand: a decoder gets them one by one, each in memory of its own.
std::vector<Inputs> single_tokens(const Inputs& inputs) {
  std::vector<Inputs> tokens(static_cast<size_t>(kDecodedTokens));
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (const Tensor& x : inputs.qkv) {
      tokens[i].qkv.push_back(x.narrow(2, static_cast<int64_t>(i), 1).contiguous());
    }
  }
  return tokens;
}

template <typename T>
DecodeStep kernel_step(const Case& what, const Inputs& inputs) {
  const State state = empty_state(what.shape);
  const Tensor out = at::empty_like(inputs.qkv[2].narrow(2, 0, 1));
  const AttentionOptions options = options_of(what);
  return [=, tokens = single_tokens(inputs)](int64_t token) {
    causal_step<T>(kernel_inputs<T>(tokens[static_cast<size_t>(token)]), options, view<T>(out),
                   {elements<double>(state.sums), elements<int64_t>(state.counts)});
    return out;
  };
}

DecodeStep operator_step(const Case& what, const Inputs& inputs) {
  const State state = empty_state(what.shape);
  const ops::AttentionArguments arguments = operator_arguments(what);
  return [=, tokens = single_tokens(inputs)](int64_t token) {
    const std::vector<Tensor>& qkv = tokens[static_cast<size_t>(token)].qkv;
    return ops::attention_step(qkv[0], qkv[1], qkv[2], state.sums, state.counts, arguments);
  };
}

}  // namespace

DecodeStep decode_step(const std::string& impl, const Case& what, const Inputs& inputs) {
  if (impl == "mala") return operator_step(what, inputs);
  return with_type(what.dtype, [&]<typename T>(T) { return kernel_step<T>(what, inputs); });
}

int64_t decode_state_size(const Shape& shape) {
  return attention_state_size(shape.batch, shape.heads, shape.dim, shape.dim);
}

int64_t decode_steps_of_run(const Shape& shape) {
  return std::max<int64_t>(1, kElementsOfRun / decode_state_size(shape));
}

}  // namespace mala::bench
