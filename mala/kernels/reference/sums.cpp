// The sums over keys, and the few vector operations that the definition needs.
#include "mala/kernels/reference/sums.h"

#include <algorithm>
#include <array>

namespace mala::reference {
namespace {

constexpr std::array kParts{&Sums::kv, &Sums::k, &Sums::k_rotated, &Sums::v};

}  // namespace

Sums::Sums(int64_t dim, int64_t value_dim)
    : kv(dim * value_dim), k(dim), k_rotated(dim), v(value_dim) {}

void add_key(Sums& sums, const Token& key, const Row& value) {
  outer_add(1, key.rotated, value, sums.kv);
  scale_add(1, key.plain, sums.k);
  scale_add(1, key.rotated, sums.k_rotated);
  scale_add(1, value, sums.v);
  ++sums.count;
}

void read_sums(const double* from, Sums& sums) {
  for (const auto part : kParts) {
    std::copy_n(from, (sums.*part).size(), (sums.*part).begin());
    from += (sums.*part).size();
  }
}

void write_sums(const Sums& sums, double* to) {
  for (const auto part : kParts) to = std::copy((sums.*part).begin(), (sums.*part).end(), to);
}

void add_sums(const Sums& sums, double* to) {
  for (const auto part : kParts)
    for (const double x : sums.*part) *to++ += x;
}

double dot(const Row& x, const Row& y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}

void scale_add(double a, const Row& x, Row& y) {
  for (size_t i = 0; i < x.size(); ++i) y[i] += a * x[i];
}

void outer_add(double a, const Row& x, const Row& y, Row& m) {
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < y.size(); ++j) m[i * y.size() + j] += a * x[i] * y[j];
}

Row times_left(const Row& x, const Row& m, size_t cols) {
  Row y(cols);
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < cols; ++j) y[j] += x[i] * m[i * cols + j];
  return y;
}

Row times_right(const Row& m, const Row& y) {
  Row x(m.size() / y.size());
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t j = 0; j < y.size(); ++j) x[i] += m[i * y.size() + j] * y[j];
  return x;
}

}  // namespace mala::reference
