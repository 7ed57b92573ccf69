// Names, options, flop counts and lengths of the cases.
#include "bench/support/case.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "mala/core/error.h"

namespace mala::bench {

bool is_causal(Form form) {
  return form == Form::kCausal || form == Form::kPackedCausal || form == Form::kDecode;
}

bool is_packed(Form form) { return form == Form::kPacked || form == Form::kPackedCausal; }

std::string name(const Shape& shape) {
  return str(shape.batch, ",", shape.heads, ",", shape.tokens, ",", shape.dim);
}

std::string name(Pass pass) { return pass == Pass::kForward ? "forward" : "forward_backward"; }

std::string name(Form form) {
  switch (form) {
    case Form::kImage:
      return "attention";
    case Form::kText:
      return "bidirectional";
    case Form::kCausal:
      return "causal";
    case Form::kPacked:
      return "packed";
    case Form::kPackedCausal:
      return "packed_causal";
    case Form::kDecode:
      break;
  }
  return "decode";
}

std::string name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      break;
  }
  return "float16";
}

AttentionOptions options_of(const Case& what) {
  AttentionOptions options;
  const bool image = what.form == Form::kImage;
  options.norm = image ? Norm::kPublished : Norm::kBalanced;
  options.q_rope = options.k_rope =
      image ? Rope::grid(grid_width(what.shape.tokens)) : Rope::line();
  return options;
}

double flop_count(const Case& what) {
  const Shape& shape = what.shape;
  const double products = what.pass == Pass::kForward ? 4.0 : 14.0;
  const double head = static_cast<double>(shape.tokens * shape.dim * shape.dim);
  return products * head * static_cast<double>(shape.batch * shape.heads);
}

int64_t grid_width(int64_t tokens) {
  if (tokens == 65536) return 512;
  int64_t height = 1;
  for (int64_t h = 1; h * h <= tokens; ++h) {
    if (tokens % h == 0) height = h;
  }
  return tokens / height;
}

// The logarithms of the lengths are spread evenly, as those of texts are more or less. The
// generator's numbers are used as they come, since the distributions of the standard library differ
// from one to the next.
std::vector<int64_t> packed_offsets(int64_t tokens) {
  const double longest = std::max(1.0, static_cast<double>(tokens) / 4);
  const double shortest = std::max(1.0, longest / 32);
  std::mt19937 random(7);
  std::vector<int64_t> offsets = {0};
  while (offsets.back() < tokens) {
    const double place = static_cast<double>(random()) / static_cast<double>(random.max());
    const double length = shortest * std::pow(longest / shortest, place);
    offsets.push_back(std::min(tokens, offsets.back() + static_cast<int64_t>(length)));
  }
  return offsets;
}

}  // namespace mala::bench
