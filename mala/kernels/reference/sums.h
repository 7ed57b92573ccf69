// What keys and values leave behind for the queries: four sums and a count.
#pragma once

#include <cstdint>

#include "mala/kernels/reference/rope.h"

namespace mala::reference {

// A query or a key after the feature map, before and after its rotation.
struct Token {
  Row plain, rotated;  // (D)
};

// Over the keys seen so far. The same struct holds the gradients of the four sums.
struct Sums {
  Sums(int64_t dim, int64_t value_dim);

  Row kv;         // S   = sum R phi(k) (x) v   (D, E)
  Row k;          // Z   = sum phi(k)           (D)
  Row k_rotated;  // Z^R = sum R phi(k)         (D)
  Row v;          // U   = sum v                (E)
  int64_t count = 0;
};

void add_key(Sums& sums, const Token& key, const Row& value);

// Between the four sums and the memory of a caller, where they lie one after the other.
void read_sums(const double* from, Sums& sums);
void write_sums(const Sums& sums, double* to);
void add_sums(const Sums& sums, double* to);

double dot(const Row& x, const Row& y);
void scale_add(double a, const Row& x, Row& y);                // y += a x
void outer_add(double a, const Row& x, const Row& y, Row& m);  // m += a x (x) y
Row times_left(const Row& x, const Row& m, size_t cols);       // x m
Row times_right(const Row& m, const Row& y);                   // m y

}  // namespace mala::reference
