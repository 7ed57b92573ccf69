// Names, flop counts and image sizes of the cases.
#include "bench/support/case.h"

#include "mala/core/error.h"

namespace mala::bench {

std::string name(const Shape& shape) {
  return str(shape.batch, ",", shape.heads, ",", shape.tokens, ",", shape.dim);
}

std::string name(Pass pass) { return pass == Pass::kForward ? "forward" : "forward_backward"; }

double flop_count(const Shape& shape, Pass pass) {
  const double products = pass == Pass::kForward ? 4.0 : 14.0;
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

}  // namespace mala::bench
