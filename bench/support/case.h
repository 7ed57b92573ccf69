// What is timed: a shape, a pass, and how many flop they hold.
#pragma once

#include <cstdint>
#include <string>

namespace mala::bench {

struct Shape {
  int64_t batch = 1, heads = 1, tokens = 1, dim = 8;
};

enum class Pass { kForward, kForwardBackward };

// "B,H,N,D"
std::string name(const Shape& shape);

// "forward" or "forward_backward"
std::string name(Pass pass);

// The flop of the matrix products that linear attention cannot avoid, values as wide as keys:
// 4 N D D a head forward, 14 N D D with backward.
double flop_count(const Shape& shape, Pass pass);

// The width of the image whose tokens these are: the most square one that has just as many. Only
// 65536 is 128 x 512, the first stage of a model that looks at 512 x 2048 pixels.
int64_t grid_width(int64_t tokens);

}  // namespace mala::bench
