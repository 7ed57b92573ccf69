// Overlap of strided tensors, as a small search for indices that name the same address.
#include "mala/core/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace mala {
namespace {

// One unknown: a whole number of `stride`s, between low and high.
struct Term {
  int64_t stride, low, high;
};

void add_dimensions(const Footprint& tensor, int sign, std::vector<Term>& terms) {
  for (size_t i = 0; i < 4; ++i) {
    const int64_t last = tensor.sizes[i] - 1, stride = tensor.strides[i];
    if (last == 0 || stride == 0) continue;
    const bool up = (stride > 0) == (sign > 0);
    terms.push_back({std::abs(stride), up ? 0 : -last, up ? last : 0});
  }
}

// Largest strides first; equal ones become one unknown, which keeps the search short.
std::vector<Term> merged(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return a.stride > b.stride; });
  std::vector<Term> result;
  for (const Term& term : terms) {
    if (!result.empty() && result.back().stride == term.stride) {
      result.back().low += term.low;
      result.back().high += term.high;
    } else {
      result.push_back(term);
    }
  }
  return result;
}

int64_t divide_down(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0); }

// Looks for values of the terms from `first` on whose sum is `wanted`.
struct Search {
  const std::vector<Term>& terms;
  int64_t steps_left = 20000;

  bool finds(size_t first, int64_t wanted) {
    if (first == terms.size()) return wanted == 0;
    int64_t low = 0, high = 0;
    for (size_t i = first + 1; i < terms.size(); ++i) {
      low += terms[i].low * terms[i].stride;
      high += terms[i].high * terms[i].stride;
    }
    const Term& term = terms[first];
    const int64_t from = std::max(term.low, -divide_down(high - wanted, term.stride));
    const int64_t to = std::min(term.high, divide_down(wanted - low, term.stride));
    for (int64_t x = from; x <= to; ++x) {
      if (--steps_left < 0) return true;
      if (finds(first + 1, wanted - x * term.stride)) return true;
    }
    return false;
  }
};

}  // namespace

ByteRange byte_range(const Footprint& tensor) {
  int64_t low = 0, high = 0;
  for (size_t i = 0; i < 4; ++i) {
    const int64_t reach = (tensor.sizes[i] - 1) * tensor.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  return {tensor.address + static_cast<uintptr_t>(low * tensor.bytes),
          tensor.address + static_cast<uintptr_t>((high + 1) * tensor.bytes)};
}

bool overlaps_itself(const Footprint& tensor) {
  std::vector<Term> terms;
  add_dimensions(tensor, 1, terms);
  for (size_t i = 0; i < 4; ++i) {
    if (tensor.sizes[i] > 1 && tensor.strides[i] == 0) return true;
  }
  std::sort(terms.begin(), terms.end(),
            [](const Term& a, const Term& b) { return a.stride < b.stride; });
  int64_t reach = 0;  // of the dimensions inside this one
  for (const Term& term : terms) {
    if (term.stride <= reach) return true;
    reach += (term.high - term.low) * term.stride;
  }
  return false;
}

bool overlap(const Footprint& a, const Footprint& b) {
  if (!byte_range(a).overlaps(byte_range(b))) return false;  // nearly always, and quickly
  const int64_t apart = static_cast<int64_t>(b.address - a.address);
  if (apart % a.bytes != 0) return true;
  std::vector<Term> terms;
  add_dimensions(a, 1, terms);
  add_dimensions(b, -1, terms);
  const std::vector<Term> sorted = merged(std::move(terms));
  return Search{sorted}.finds(0, apart / a.bytes);
}

}  // namespace mala
