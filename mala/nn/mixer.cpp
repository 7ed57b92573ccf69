// Softmax by torch, the linear rules by torch.ops.mala.
#include "mala/nn/mixer.h"

#include <array>
#include <utility>

#include "mala/core/error.h"
#include "mala/nn/rope.h"
#include "mala/ops/attention.h"

namespace mala::nn {
namespace {

constexpr std::array<std::pair<Mixer, std::string_view>, 4> kWords{{{Mixer::kMala, "mala"},
                                                                    {Mixer::kSoftmax, "softmax"},
                                                                    {Mixer::kLinear, "linear"},
                                                                    {Mixer::kInline, "inline"}}};

Rule rule_of(Mixer mixer) {
  if (mixer == Mixer::kLinear) return Rule::kLinear;
  return mixer == Mixer::kInline ? Rule::kInline : Rule::kMala;
}

Tensor mix_linearly(Mixer mixer, const MixerInputs& x) {
  ops::AttentionArguments arguments{.local = x.local, .gate = x.gate, .rule = rule_of(mixer)};
  if (x.grid) {
    arguments.rope = mala::Rope::Kind::kGrid;
    arguments.grid_width = {x.grid->width, x.grid->width};
  }
  return ops::attention(x.q, x.k, x.v, arguments);
}

Tensor mix_by_softmax(const MixerInputs& x) {
  Tensor q = x.q, k = x.k;
  if (x.grid) {
    const Tensor rotation = grid_rotation(*x.grid, q.size(-1), q.device());
    q = rotate(q, rotation);
    k = rotate(k, rotation);
  }
  Tensor out = torch::scaled_dot_product_attention(q, k, x.v);
  if (x.local) out = out + *x.local;
  return x.gate ? out * *x.gate : out;
}

}  // namespace

std::string_view word_for(Mixer mixer) {
  for (const auto& [known, word] : kWords) {
    if (known == mixer) return word;
  }
  throw Error("[mixer] a value that is no mixer");
}

Mixer mixer_named(std::string_view word) {
  for (const auto& [mixer, known] : kWords) {
    if (known == word) return mixer;
  }
  throw Error(str("[mixer] '", word, "' is no mixer; use mala, softmax, linear or inline"));
}

Tensor mix(Mixer mixer, const MixerInputs& inputs) {
  return join_heads(mixer == Mixer::kSoftmax ? mix_by_softmax(inputs)
                                             : mix_linearly(mixer, inputs));
}

Tensor split_heads(const Tensor& tokens, int64_t heads) {
  return tokens.unflatten(-1, {heads, tokens.size(-1) / heads}).transpose(1, 2);
}

Tensor join_heads(const Tensor& heads) { return heads.transpose(1, 2).flatten(2); }

void check_heads(const char* where, int64_t dim, int64_t heads) {
  check(heads > 0 && dim > 0 && dim % (8 * heads) == 0, where, "dim ", dim, " with ", heads,
        " heads; each head needs a multiple of 8 channels, so make dim a multiple of 8 * heads");
}

}  // namespace mala::nn
