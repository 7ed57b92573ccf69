// Angles in double, rounded once.
#include "mala/nn/rope.h"

#include <c10/core/InferenceMode.h>

#include <map>
#include <mutex>
#include <tuple>

namespace mala::nn {
namespace {

Tensor make_rotation(GridSize grid, int64_t head_dim) {
  const Tensor angles = grid_angles(head_dim);
  // Sines and cosines are slow: for each row and column, not for each token.
  const auto steps = [&](int64_t count) {
    const Tensor turns = torch::outer(torch::arange(count, torch::kFloat64), angles);
    return torch::polar(torch::ones_like(turns), turns).to(torch::kComplexFloat);
  };
  const std::vector<int64_t> sizes{grid.height, grid.width, head_dim / 4};
  const Tensor rows = steps(grid.height).unsqueeze(1).expand(sizes);
  const Tensor columns = steps(grid.width).unsqueeze(0).expand(sizes);
  return torch::cat({rows, columns}, -1).flatten(0, 1);  // (N, D / 2)
}

}  // namespace

Tensor grid_angles(int64_t head_dim) {
  const Tensor exponents = torch::linspace(0, 1, head_dim / 4, torch::kFloat64);
  return torch::pow(10000.0, -exponents);
}

// Models ask for the same few again and again, and a GPU would wait for the copy each time.
Tensor grid_rotation(GridSize grid, int64_t head_dim, torch::Device device) {
  constexpr size_t kMost = 64;
  static std::mutex mutex;
  // Never destroyed: at the end of a program its GPU may be gone before.
  using Known = std::map<std::tuple<int64_t, int64_t, int64_t, std::string>, Tensor>;
  static Known& known = *new Known;
  const std::lock_guard lock(mutex);
  if (known.size() >= kMost) known.clear();
  Tensor& rotation = known[{grid.height, grid.width, head_dim, device.str()}];
  if (!rotation.defined()) {
    // A tensor of inference could not serve a training that follows.
    const c10::InferenceMode no_inference(false);
    rotation = make_rotation(grid, head_dim).to(device);
  }
  return rotation;
}

Tensor rotate(const Tensor& x, const Tensor& rotation) {
  const bool is_narrow = x.element_size() < 4;
  const Tensor wide = is_narrow ? x.to(torch::kFloat32) : x;
  const Tensor pairs = torch::view_as_complex(wide.unflatten(-1, {x.size(-1) / 2, 2}));
  const Tensor turned = torch::view_as_real(pairs * rotation).flatten(-2);
  return is_narrow ? turned.to(x.scalar_type()) : turned;
}

void rotate_in_place(const Tensor& pixels, int64_t heads) {
  const int64_t pair_count = pixels.size(-1) / heads / 2;
  const Tensor rotation =
      grid_rotation(grid_of(pixels), 2 * pair_count, pixels.device()).unsqueeze(1);
  const Tensor pairs = pixels.flatten(1, 2).unflatten(-1, {heads, pair_count, 2});  // (B, N, ...)
  if (pixels.element_size() < 4) {
    const Tensor wide = torch::view_as_complex(pairs.to(torch::kFloat32));
    pairs.copy_(torch::view_as_real(wide * rotation));
  } else {
    torch::view_as_complex(pairs).mul_(rotation);
  }
}

RopeImpl::RopeImpl(int64_t head_dim) {
  register_buffer("angle", grid_angles(head_dim).to(torch::kFloat32).repeat_interleave(2));
}

}  // namespace mala::nn
