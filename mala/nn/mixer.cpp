// Softmax by torch, the linear rules by torch.ops.mala.
#include "mala/nn/mixer.h"

#include <array>
#include <cmath>
#include <utility>

#include "mala/core/error.h"
#include "mala/nn/rope.h"
#include "mala/ops/attention.h"

namespace mala::nn {
namespace {

constexpr std::array<std::pair<Mixer, std::string_view>, 9> kWords{
    {{Mixer::kMala, "mala"},
     {Mixer::kSoftmax, "softmax"},
     {Mixer::kLinear, "linear"},
     {Mixer::kInline, "inline"},
     {Mixer::kMalaBalanced, "mala_balanced"},
     {Mixer::kMalaRelu, "mala_relu"},
     {Mixer::kMalaExp, "mala_exp"},
     {Mixer::kMalaNoGain, "mala_no_gain"},
     {Mixer::kMalaNoShift, "mala_no_shift"}}};

Rule rule_of(Mixer mixer) {
  if (mixer == Mixer::kLinear) return Rule::kLinear;
  return mixer == Mixer::kInline ? Rule::kInline : Rule::kMala;
}

ops::AttentionArguments arguments_of(Rule rule, const MixerInputs& x) {
  ops::AttentionArguments arguments{.local = x.local, .gate = x.gate, .rule = rule};
  if (x.grid) {
    arguments.rope = mala::Rope::Kind::kGrid;
    arguments.grid_width = {x.grid->width, x.grid->width};
  }
  return arguments;
}

Tensor mix_linearly(Mixer mixer, const MixerInputs& x) {
  ops::AttentionArguments arguments = arguments_of(rule_of(mixer), x);
  if (mixer == Mixer::kMalaBalanced) arguments.norm = Norm::kBalanced;
  if (mixer == Mixer::kMalaRelu) arguments.feature = Feature::kRelu;
  if (mixer == Mixer::kMalaExp) arguments.feature = Feature::kExp;
  return ops::attention(x.q, x.k, x.v, arguments);
}

// (B, H, N, 1): s of docs/math.md, before rotation.
Tensor magnitude(const MixerInputs& x) {
  const auto features = [](const Tensor& t) { return torch::elu(t.to(torch::kFloat32)) + 1; };
  const double scale = 1 / std::sqrt(static_cast<double>(x.q.size(-1)));
  return scale * torch::matmul(features(x.q), features(x.k).mean(-2).unsqueeze(-1));
}

// From the rules that the kernels have: inline is P - (s - 1) mean(v), linear is P / s.
Tensor mix_without_a_part(Mixer mixer, MixerInputs x) {
  const std::optional<Tensor> local = std::exchange(x.local, {}), gate = std::exchange(x.gate, {});
  Tensor out;
  if (mixer == Mixer::kMalaNoGain) {
    const Tensor mixed = ops::attention(x.q, x.k, x.v, arguments_of(Rule::kInline, x));
    out = mixed - x.v.mean(-2, true);
  } else {
    const ops::AttentionArguments arguments = arguments_of(Rule::kLinear, x);
    const Tensor mixed = ops::attention(x.q, x.k, x.v, arguments);
    out = mixed * (magnitude(x) + (1 + arguments.eps)).to(mixed.scalar_type());
  }
  if (local) out = out + *local;
  return gate ? out * *gate : out;
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
  throw Error(str("[mixer] '", word,
                  "' is no mixer; use mala, softmax, linear or inline, or one of",
                  " mala_balanced, mala_relu, mala_exp, mala_no_gain, mala_no_shift"));
}

Tensor mix(Mixer mixer, const MixerInputs& inputs) {
  if (mixer == Mixer::kSoftmax) return join_heads(mix_by_softmax(inputs));
  const bool lacks_a_part = mixer == Mixer::kMalaNoGain || mixer == Mixer::kMalaNoShift;
  return join_heads(lacks_a_part ? mix_without_a_part(mixer, inputs) : mix_linearly(mixer, inputs));
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
