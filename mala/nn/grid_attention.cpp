// Slices of the packed projection go to the operator as they lie in memory.
#include "mala/nn/grid_attention.h"

namespace mala::nn {

Tensor mix_on_grid(Mixer mixer, const PackedParts& parts, const Tensor& local, int64_t heads) {
  const auto in_heads = [&](const Tensor& pixels) {
    return split_heads(pixels.flatten(1, 2), heads);
  };
  std::optional<GridSize> grid;
  if (!parts.is_rotated) grid = grid_of(parts.q);
  const Tensor mixed = mix(mixer, {.q = in_heads(parts.q),
                                   .k = in_heads(parts.k),
                                   .v = in_heads(parts.v),
                                   .local = in_heads(local),
                                   .gate = in_heads(parts.gate),
                                   .grid = grid});
  return mixed.unflatten(1, {parts.q.size(1), parts.q.size(2)});
}

GridAttentionImpl::GridAttentionImpl(int64_t dim, int64_t heads, Mixer mixer)
    : qkvo(pointwise(dim, 4 * dim)),
      lepe(depthwise(dim, 5)),
      proj(pointwise(dim, dim)),
      heads_(heads),
      mixer_(mixer) {
  check_heads("GridAttention", dim, heads);
  register_module("qkvo", qkvo);
  register_module("lepe", lepe);
  register_module("proj", proj);
}

PackedParts GridAttentionImpl::parts_of(const Tensor& pixels) const {
  const auto parts = project(qkvo, pixels).chunk(4, -1);
  return {parts[0], parts[1], parts[2], parts[3]};
}

Tensor GridAttentionImpl::mixed(const Tensor& pixels) {
  const PackedParts parts = parts_of(pixels);
  const Tensor local = convolve(lepe, parts.v);
  return mix_on_grid(mixer_, parts, local, heads_);
}

}  // namespace mala::nn
