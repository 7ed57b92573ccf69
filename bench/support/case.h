// What is timed: an operation on tensors of a shape and a type, and how many flop it holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mala/core/dtypes.h"
#include "mala/kernels/attention.h"

namespace mala::bench {

struct Shape {
  int64_t batch = 1, heads = 1, tokens = 1, dim = 8;
  bool operator==(const Shape&) const = default;
};

enum class Pass { kForward, kForwardBackward };

// All with the rule mala and the feature elu1.
enum class Form {
  kImage,         // norm published, RoPE over the grid of grid_width(tokens)
  kText,          // norm balanced, RoPE along a line
  kCausal,        // as text, causal
  kPacked,        // as text, the tokens being sequences of mixed lengths
  kPackedCausal,  // as packed, causal
  kDecode,        // as causal, one token for each sequence, from a state and into it
};

struct Case {
  Form form = Form::kImage;
  Shape shape = {};
  Pass pass = Pass::kForward;
  DType dtype = DType::kFloat32;
  bool operator==(const Case&) const = default;
};

bool is_causal(Form form);
bool is_packed(Form form);

// "B,H,N,D"
std::string name(const Shape& shape);

// "forward" or "forward_backward"
std::string name(Pass pass);

// "attention", "bidirectional", "causal", "packed", "packed_causal" or "decode"
std::string name(Form form);

// "float32", "bfloat16", ...
std::string name(DType dtype);

AttentionOptions options_of(const Case& what);

// The flop of the matrix products that linear attention cannot avoid, values as wide as keys:
// 4 N D D a head forward, 14 N D D with backward.
double flop_count(const Case& what);

// The width of the image whose tokens these are: the most square one that has just as many. Only
// 65536 is 128 x 512, the first stage of a model that looks at 512 x 2048 pixels.
int64_t grid_width(int64_t tokens);

// Where the sequences begin that are packed into so many tokens, and where the last one ends. They
// are the same each time: short ones and long ones, up to a quarter of the tokens.
std::vector<int64_t> packed_offsets(int64_t tokens);

}  // namespace mala::bench
