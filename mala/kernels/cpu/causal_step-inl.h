// One token at a time: the state is read once, brought up to date and written back, in double.
#if defined(MALA_CPU_CAUSAL_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_CAUSAL_STEP_INL_H_
#undef MALA_CPU_CAUSAL_STEP_INL_H_
#else
#define MALA_CPU_CAUSAL_STEP_INL_H_
#endif

#include <optional>

#include "hwy/highway.h"
#include "mala/kernels/cpu/causal_passes.h"
#include "mala/kernels/cpu/heads.h"
#include "mala/kernels/cpu/stage-inl.h"
#include "mala/kernels/cpu/step_rows-inl.h"
#include "mala/kernels/cpu/turn-inl.h"
#include "mala/kernels/rule.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr Span kOne{0, 1};  // token
// The one row of a view: where it stands if it is whole vectors, else through the tile. Null if
// the view has no data.
template <typename T>
HWY_INLINE const T* row_of(const Input& x, T* tile) {
  if (usable_in_place<T>(x)) return static_cast<const T*>(x.data);
  return stage(x, kOne, tile).data;
}

// sum += row where kAdds; returns the product of the sum with the query.
template <bool kAdds>
HWY_INLINE double add_and_dot(const double* row, const double* query, int64_t count, double* sum) {
  const Doubles d;
  auto total = hn::Zero(d);
  for (int64_t j = 0; j < count; j += kDoubles) {
    auto x = hn::LoadU(d, sum + j);
    if (kAdds) {
      x = hn::Add(x, hn::LoadU(d, row + j));
      hn::StoreU(x, d, sum + j);
    }
    total = hn::MulAdd(hn::LoadU(d, query + j), x, total);
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

// S += key (x) value where kAdds, and P = query . S, for kVectors vectors of each row of S.
template <int kVectors, bool kAdds>
HWY_INLINE void step_columns(const double* key, const double* value, const double* query,
                             int64_t dim, int64_t stride, double* state, double* product) {
  const Doubles d;
  hn::Vec<Doubles> v[kVectors], p[kVectors];
  HWY_UNROLL(8)
  for (int j = 0; j < kVectors; ++j) {
    v[j] = hn::LoadU(d, value + j * kDoubles);
    p[j] = hn::Zero(d);
  }
  for (int64_t i = 0; i < dim; ++i, state += stride) {
    const auto k = hn::Set(d, key[i]), q = hn::Set(d, query[i]);
    hn::Vec<Doubles> s[kVectors];
    HWY_UNROLL(8)
    for (int j = 0; j < kVectors; ++j) {
      s[j] = hn::LoadU(d, state + j * kDoubles);
      if (kAdds) s[j] = hn::MulAdd(k, v[j], s[j]);
    }
    HWY_UNROLL(8)
    for (int j = 0; kAdds && j < kVectors; ++j) hn::StoreU(s[j], d, state + j * kDoubles);
    HWY_UNROLL(8)
    for (int j = 0; j < kVectors; ++j) p[j] = hn::MulAdd(q, s[j], p[j]);
  }
  HWY_UNROLL(8)
  for (int j = 0; j < kVectors; ++j) hn::StoreU(p[j], d, product + j * kDoubles);
}

template <bool kAdds>
HWY_INLINE void step_state(const double* key, const double* value, const double* query, int64_t dim,
                           int64_t value_dim, double* state, double* product) {
  // Eight vectors of sums and as many of values leave AVX-512's registers room for the state.
  constexpr int kMost = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
  int64_t j = 0;
  for (; j + kMost * kDoubles <= value_dim; j += kMost * kDoubles) {
    step_columns<kMost, kAdds>(key, value + j, query, dim, value_dim, state + j, product + j);
  }
  for (; j < value_dim; j += kDoubles) {
    step_columns<1, kAdds>(key, value + j, query, dim, value_dim, state + j, product + j);
  }
}

template <typename T>
class CausalStepPass {
 public:
  explicit CausalStepPass(const CausalStep<T>& task)
      : task_(task),
        dim_(task.key.x.cols),
        value_dim_(task.v.first.cols),
        key_turn_(task.key),
        own_query_turn_(turn_of_queries(task)),
        keys_(task.key, task.k, task.heads, key_turn_),
        queries_(task.query, task.q, task.heads * task.group,
                 own_query_turn_ ? *own_query_turn_ : key_turn_) {}

  void run() {
    for (int64_t head = 0; head < task_.heads; ++head) run_head(head);
  }

 private:
  // Where queries turn by other angles than keys do.
  static std::optional<TokenTurn<T>> turn_of_queries(const CausalStep<T>& task) {
    if (task.query.angles == task.key.angles) return {};
    return std::make_optional<TokenTurn<T>>(task.query);
  }

  HWY_INLINE void run_head(int64_t head) {
    const HeadState<double> state(task_.state + head * attention_state_size(1, 1, dim_, value_dim_),
                                  dim_, value_dim_);
    const StepRow key = keys_.row(head);
    copy_as_double(row_of<T>(task_.v.of(head), tile_), value_dim_, value_);
    run_member<true>(head * task_.group, key, state);
    for (int64_t member = 1; member < task_.group; ++member) {
      run_member<false>(head * task_.group + member, key, state);
    }
  }

  // The first member's pass brings the state up to date for all.
  template <bool kAdds>
  HWY_INLINE void run_member(int64_t query_head, StepRow key, const HeadState<double>& state) {
    const StepRow query = queries_.row(query_head);
    step_state<kAdds>(key.rotated, value_, query.rotated, dim_, value_dim_, state.products,
                      product_);
    // The small sums lie behind S, so it is their turn after it.
    const double s = add_and_dot<kAdds>(key.plain, query.plain, dim_, state.keys);
    const double r = add_and_dot<kAdds>(key.rotated, query.rotated, dim_, state.rotated_keys);
    if (kAdds) add_value(state.values);
    write(query_head, s, r, state.values);
  }

  HWY_INLINE void add_value(double* values) const {
    for (int64_t j = 0; j < value_dim_; j += kDoubles) {
      store_double(hn::Add(load_as_double(values + j), load_as_double(value_ + j)), values + j);
    }
  }

  // out = (c * gain * P - shift * mean value + local) * gate.
  HWY_INLINE void write(int64_t query_head, double s, double r, const double* values) {
    const CausalWeighting& weighting = task_.weighting;
    const double inverse = 1.0 / static_cast<double>(task_.key.earlier + 1);
    const double c = weighting.scale * (weighting.key_mean ? inverse : 1.0);
    const RuleTerms<double> terms =
        rule_terms(weighting.rule, c * (weighting.needs_plain() ? s : r), weighting.eps);
    const double shift = weighting.norm == Norm::kBalanced ? terms.gain * c * r - 1 : terms.shift;
    const auto by_product = hn::Set(Doubles(), c * terms.gain);
    const auto by_value = hn::Set(Doubles(), shift * inverse);
    const T* local = row_of<T>(task_.local.of(query_head), tile_);
    const T* gate = row_of<T>(task_.gate.of(query_head), gate_);
    const Output to = task_.out.of(query_head);
    const Rows<T> out = stage_output(to, kOne, out_);
    for (int64_t j = 0; j < value_dim_; j += kDoubles) {
      auto y = hn::NegMulAdd(by_value, load_as_double(values + j),
                             hn::Mul(by_product, load_as_double(product_ + j)));
      if (local) y = hn::Add(y, load_as_double(local + j));
      if (gate) y = hn::Mul(y, load_as_double(gate + j));
      store_double(y, out.data + j);
    }
    unstage(out, kOne, to);
  }

  const CausalStep<T>& task_;
  int64_t dim_, value_dim_;
  TokenTurn<T> key_turn_;
  std::optional<TokenTurn<T>> own_query_turn_;
  StepRows<T> keys_, queries_;
  alignas(64) double value_[kMostPad];
  alignas(64) double product_[kMostPad];
  alignas(64) T tile_[kMostPad];
  alignas(64) T gate_[kMostPad];
  alignas(64) T out_[kMostPad];
};

template <typename T>
void causal_step(const CausalStep<T>& task) {
  CausalStepPass<T>(task).run();
}

}  // namespace mala::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
