// Makes the contenders of a case from one set of inputs, and compares their results.
#include "bench/support/contenders.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/support/published.h"
#include "bench/support/raw_kernels.h"
#include "mala/core/error.h"
#include "mala/core/parallel.h"
#include "mala/ops/attention.h"

namespace mala::bench {

namespace {

using at::Tensor;
using Attention = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)>;
using Results = std::vector<Tensor>;  // out, and with backward the gradients of q, k and v

struct Inputs {
  std::vector<Tensor> qkv;  // (B, H, N, D) each
  Tensor out_gradient;      // (B, H, N, D)
};

Inputs random_inputs(const Shape& shape) {
  at::manual_seed(7);
  const std::vector<int64_t> sizes = {shape.batch, shape.heads, shape.tokens, shape.dim};
  const Tensor q = at::randn(sizes), k = at::randn(sizes), v = at::randn(sizes);
  return {{q, k, v}, at::randn(sizes)};
}

Inputs in_double(const Inputs& inputs) {
  Inputs wide{{}, inputs.out_gradient.to(at::kDouble)};
  for (const Tensor& x : inputs.qkv) wide.qkv.push_back(x.to(at::kDouble));
  return wide;
}

Results forward(const Attention& attention, const Inputs& inputs) {
  const at::NoGradGuard no_grad;
  return {attention(inputs.qkv[0], inputs.qkv[1], inputs.qkv[2])};
}

// Leaves share the memory of the inputs and are new in each call, so no gradient is added to.
Results forward_backward(const Attention& attention, const Inputs& inputs) {
  Results leaves;
  for (const Tensor& x : inputs.qkv) leaves.push_back(x.detach().set_requires_grad(true));
  const Tensor out = attention(leaves[0], leaves[1], leaves[2]);
  out.backward(inputs.out_gradient);
  return {out.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
}

Results run_pass(const Attention& attention, const Inputs& inputs, Pass pass) {
  return pass == Pass::kForward ? forward(attention, inputs) : forward_backward(attention, inputs);
}

Attention published(const Shape& shape, at::ScalarType dtype) {
  const RopeTables rope =
      grid_rope_tables(shape.tokens, grid_width(shape.tokens), shape.dim, dtype);
  return [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return published_attention(q, k, v, rope);
  };
}

Attention find_attention(const std::string& impl, const Shape& shape) {
  if (impl == "published") return published(shape, at::kFloat);
  if (impl == "sdpa") {
    return [](const Tensor& q, const Tensor& k, const Tensor& v) {
      return at::scaled_dot_product_attention(q, k, v);
    };
  }
  ops::AttentionArguments arguments;
  arguments.rope = Rope::Kind::kGrid;
  arguments.grid_width = {grid_width(shape.tokens), grid_width(shape.tokens)};
  return [=](const Tensor& q, const Tensor& k, const Tensor& v) {
    return ops::attention(q, k, v, arguments);
  };
}

// The largest difference over the largest expected value; infinite where something is not finite.
double relative_error(const Tensor& actual, const Tensor& expected) {
  const double difference = (actual.to(at::kDouble) - expected).abs().max().item<double>();
  const double size = expected.abs().max().item<double>();
  const double error = difference / size;
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

double largest_error(const Results& actual, const Results& expected) {
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, relative_error(actual[i], expected[i]));
  }
  return largest;
}

}  // namespace

std::vector<Contender> make_contenders(const Shape& shape, Pass pass,
                                       const std::vector<std::string>& impls) {
  const Inputs inputs = random_inputs(shape);
  const Results expected = run_pass(published(shape, at::kDouble), in_double(inputs), pass);
  std::vector<Contender> contenders;
  for (const std::string& impl : impls) {
    std::function<Results()> call;
    if (impl == "kernels") {
      call = raw_kernel_call(inputs.qkv, inputs.out_gradient, pass);
    } else {
      call = [=, attention = find_attention(impl, shape)] {
        return run_pass(attention, inputs, pass);
      };
    }
    const double error = impl == "sdpa" ? 0 : largest_error(call(), expected);
    contenders.push_back({impl, [call] { call(); }, error});
  }
  return contenders;
}

int64_t set_threads(int64_t threads) {
  if (threads > 0) at::set_num_threads(static_cast<int>(threads));
  check(at::get_num_threads() == max_workers(), "attention_bench", "torch has ",
        at::get_num_threads(), " threads but our kernels ", max_workers(),
        "; they need one OpenMP library, that of the torch wheel");
  return max_workers();
}

}  // namespace mala::bench
