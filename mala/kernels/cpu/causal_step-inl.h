// One token at a time: the state is read once, brought up to date and written back, in double.
#if defined(MALA_CPU_CAUSAL_STEP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MALA_CPU_CAUSAL_STEP_INL_H_
#undef MALA_CPU_CAUSAL_STEP_INL_H_
#else
#define MALA_CPU_CAUSAL_STEP_INL_H_
#endif

#include <algorithm>
#include <optional>

#include "hwy/highway.h"
#include "mala/kernels/cpu/causal_passes.h"
#include "mala/kernels/cpu/heads.h"
#include "mala/kernels/cpu/stage-inl.h"
#include "mala/kernels/rule.h"

HWY_BEFORE_NAMESPACE();
namespace mala::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr Span kOne{0, 1};  // token

// A token's features, before and after rotation, as doubles.
struct StepFeatures {
  alignas(64) double plain[kMostPad];
  alignas(64) double rotated[kMostPad];
};

template <typename T>
HWY_INLINE void load_row(const Input& x, T* tile, double* to) {
  const Rows<const T> row = stage(x, kOne, tile);
  for (int64_t j = 0; j < x.cols; ++j) to[j] = static_cast<double>(row.data[j]);
}

template <typename T>
HWY_INLINE void load_features(const Tokens& tokens, RotationWalk<T>& walk, T* tile,
                              StepFeatures& to) {
  const Rows<T> row = stage_features(tokens, kOne, tile);
  for (int64_t j = 0; j < tokens.x.cols; ++j) to.plain[j] = static_cast<double>(row.data[j]);
  walk.template rotate<false>(read_only(row), row, 1);
  for (int64_t j = 0; j < tokens.x.cols; ++j) to.rotated[j] = static_cast<double>(row.data[j]);
}

HWY_INLINE double dot_rows(const double* a, const double* b, int64_t count) {
  const hn::CappedTag<double, 8> d;
  auto sum = hn::Zero(d);
  for (int64_t j = 0; j < count; j += static_cast<int64_t>(hn::Lanes(d))) {
    sum = hn::MulAdd(hn::LoadU(d, a + j), hn::LoadU(d, b + j), sum);
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

HWY_INLINE void add_row(const double* row, int64_t count, double* sum) {
  const hn::CappedTag<double, 8> d;
  for (int64_t j = 0; j < count; j += static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(hn::Add(hn::LoadU(d, sum + j), hn::LoadU(d, row + j)), d, sum + j);
  }
}

// A state is walked through once, too fast for the hardware to look far ahead by itself. Beyond the
// last row lie the small sums and the next head.
constexpr int64_t kRowsAhead = 8;

// S += key (x) value where kAdds, and P = query . S, for kVectors vectors of each row of S.
template <int kVectors, bool kAdds>
HWY_INLINE void step_columns(const double* key, const double* value, const double* query,
                             int64_t dim, int64_t stride, double* state, double* product) {
  const hn::CappedTag<double, 8> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> v[kVectors], p[kVectors];
  HWY_UNROLL(8)
  for (int j = 0; j < kVectors; ++j) {
    v[j] = hn::LoadU(d, value + j * lanes);
    p[j] = hn::Zero(d);
  }
  for (int64_t i = 0; i < dim; ++i, state += stride) {
    const auto k = hn::Set(d, key[i]), q = hn::Set(d, query[i]);
    HWY_UNROLL(8)
    for (int j = 0; j < kVectors; ++j) {
      if (kAdds) __builtin_prefetch(state + kRowsAhead * stride + j * lanes, 1);
      auto s = hn::LoadU(d, state + j * lanes);
      if (kAdds) {
        s = hn::MulAdd(k, v[j], s);
        hn::StoreU(s, d, state + j * lanes);
      }
      p[j] = hn::MulAdd(q, s, p[j]);
    }
  }
  HWY_UNROLL(8)
  for (int j = 0; j < kVectors; ++j) hn::StoreU(p[j], d, product + j * lanes);
}

template <bool kAdds>
HWY_INLINE void step_state(const double* key, const double* value, const double* query, int64_t dim,
                           int64_t value_dim, double* state, double* product) {
  // Eight vectors of sums and as many of values leave AVX-512's registers room for the state.
  constexpr int kMost = HWY_TARGET <= HWY_AVX3 ? 8 : 4;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::CappedTag<double, 8>()));
  int64_t j = 0;
  for (; j + kMost * lanes <= value_dim; j += kMost * lanes) {
    step_columns<kMost, kAdds>(key, value + j, query, dim, value_dim, state + j, product + j);
  }
  for (; j < value_dim; j += lanes) {
    step_columns<1, kAdds>(key, value + j, query, dim, value_dim, state + j, product + j);
  }
}

template <typename T>
class CausalStepPass {
 public:
  explicit CausalStepPass(const CausalStep<T>& task)
      : task_(task), dim_(task.key.x.cols), value_dim_(task.v.first.cols), key_walk_(task.key) {
    if (task.query.angles != task.key.angles) own_query_walk_.emplace(task.query);
  }

  void run() {
    for (int64_t head = 0; head < task_.heads; ++head) run_head(head);
  }

 private:
  void run_head(int64_t head) {
    const HeadState<double> state(task_.state + head * attention_state_size(1, 1, dim_, value_dim_),
                                  dim_, value_dim_);
    load_features(with(task_.key, task_.k.of(head)), key_walk_, tile_, key_);
    load_row(task_.v.of(head), tile_, value_);
    for (int64_t member = 0; member < task_.group; ++member) {
      const int64_t query_head = head * task_.group + member;
      load_features(with(task_.query, task_.q.of(query_head)), query_walk(), tile_, query_);
      const auto step = member == 0 ? step_state<true> : step_state<false>;
      step(key_.rotated, value_, query_.rotated, dim_, value_dim_, state.products, product_);
      if (member == 0) add_to_small_sums(state);
      write(query_head, state);
    }
  }

  // They lie behind S, so it is their turn after it.
  void add_to_small_sums(const HeadState<double>& state) {
    add_row(key_.plain, dim_, state.keys);
    add_row(key_.rotated, dim_, state.rotated_keys);
    add_row(value_, value_dim_, state.values);
  }

  RotationWalk<T>& query_walk() { return own_query_walk_ ? *own_query_walk_ : key_walk_; }

  static Tokens with(Tokens tokens, const Input& x) {
    tokens.x = x;
    return tokens;
  }

  // out = (c * gain * P - shift * mean value + local) * gate.
  void write(int64_t query_head, const HeadState<double>& state) {
    const CausalWeighting& weighting = task_.weighting;
    const double inverse = 1.0 / static_cast<double>(task_.key.earlier + 1);
    const double c = weighting.scale * (weighting.key_mean ? inverse : 1.0);
    const double s = c * dot_rows(query_.plain, state.keys, dim_);
    const double r = c * dot_rows(query_.rotated, state.rotated_keys, dim_);
    const RuleTerms<double> terms =
        rule_terms(weighting.rule, weighting.needs_plain() ? s : r, weighting.eps);
    const double shift = weighting.norm == Norm::kBalanced ? terms.gain * r - 1 : terms.shift;
    const Rows<const T> local = stage(task_.local.of(query_head), kOne, tile_);
    const Rows<const T> gate = stage(task_.gate.of(query_head), kOne, gate_);
    const Output to = task_.out.of(query_head);
    const Rows<T> out = stage_output(to, kOne, out_);
    for (int64_t j = 0; j < value_dim_; ++j) {
      double y = c * terms.gain * product_[j] - shift * inverse * state.values[j];
      if (local.data) y += static_cast<double>(local.data[j]);
      if (gate.data) y *= static_cast<double>(gate.data[j]);
      out.data[j] = static_cast<T>(y);
    }
    unstage(out, kOne, to);
  }

  const CausalStep<T>& task_;
  int64_t dim_, value_dim_;
  RotationWalk<T> key_walk_;
  std::optional<RotationWalk<T>> own_query_walk_;  // where queries turn by other angles
  StepFeatures key_, query_;
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
