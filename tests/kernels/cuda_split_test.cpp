// The halves of the operator on the GPU against the definition of the whole: one caller has all
// tokens.
#include <gtest/gtest.h>

#include "mala/kernels/cuda/split.h"
#include "tests/kernels/cuda_attention_run.h"
#include "tests/kernels/cuda_memory.h"
#include "tests/support/guarded.h"
#include "tests/support/split_problem.h"

namespace mala::test {
namespace {

std::span<std::byte> span_of(const DeviceBytes& bytes) { return {bytes.data(), bytes.size()}; }

// A caller with all its memory.
template <typename T>
class DeviceHalves {
 public:
  explicit DeviceHalves(const Shard<T>& shard)
      : problem_(shard.problem),
        counts_(shard.key_counts()),
        q_(problem_.q),
        k_(problem_.k),
        v_(problem_.v),
        local_(problem_.local),
        gate_(problem_.gate),
        out_gradient_(problem_.out_gradient),
        host_out_(problem_.out_shape(), problem_.about.layouts[kOut], Role::kOutput),
        host_(problem_),
        out_(host_out_),
        dq_(host_.q),
        dk_(host_.k),
        dv_(host_.v),
        dlocal_(host_.local),
        dgate_(host_.gate),
        state_(state_size()),
        state_gradient_(state_size()) {}

  AttentionResults run() {
    const DeviceBytes of_keys(gpu::keys_scratch_bytes(keys(), options()));
    const DeviceBytes of_queries(
        gpu::queries_scratch_bytes(queries(), options(), total(), problem_.about.value_dim));
    gpu::keys_forward<T>(keys(), options(), state_.span(), span_of(of_keys), nullptr);
    gpu::queries_forward<T>(queries(), options(), total(), out_.output(), span_of(of_queries),
                            nullptr);
    gpu::queries_backward<T>(
        queries(), options(), total(), out_gradient_.view(),
        {.q = dq_.output(), .local = dlocal_.output(), .gate = dgate_.output()},
        state_gradient_.span(), span_of(of_queries), nullptr);
    gpu::keys_backward<T>(keys(), options(), state_gradient_.span(),
                          {.k = dk_.output(), .v = dv_.output()}, span_of(of_keys), nullptr);
    MALA_CUDA_CHECK(cudaDeviceSynchronize());
    EXPECT_TRUE(of_keys.guards_intact() && of_queries.guards_intact())
        << "memory beside a scratch was written";
    return results();
  }

 private:
  const AttentionOptions& options() const { return problem_.options; }
  KeysInputs<T> keys() const { return {k_.view(), v_.view(), problem_.about.lengths.view()}; }
  QueriesInputs<T> queries() const {
    return {q_.view(), local_.view(), gate_.view(), problem_.about.lengths.view()};
  }
  TotalState<T> total() const { return {state_.span(), counts_, problem_.about.kv_heads()}; }
  size_t state_size() const {
    const AttentionCase& c = problem_.about;
    return attention_state_size(c.sequences(), c.kv_heads(), c.dim, c.value_dim);
  }

  AttentionResults results() {
    out_.copy_back(host_out_);
    dq_.copy_back(host_.q);
    dk_.copy_back(host_.k);
    dv_.copy_back(host_.v);
    dlocal_.copy_back(host_.local);
    dgate_.copy_back(host_.gate);
    EXPECT_TRUE(host_out_.guards_intact() && host_.guards_intact())
        << "memory beside an output was written";
    EXPECT_TRUE(state_.guards_intact() && state_gradient_.guards_intact())
        << "memory beside the state or its gradient was written";
    return host_.with(host_out_.values());
  }

  const AttentionProblem<T>& problem_;
  std::vector<int64_t> counts_;
  DeviceTensor<T> q_, k_, v_, local_, gate_, out_gradient_;
  Tensor<T> host_out_;
  GuardedGradients<T> host_;
  DeviceTensor<T> out_, dq_, dk_, dv_, dlocal_, dgate_;
  DeviceNumbers<float> state_, state_gradient_;
};

template <typename T>
void check_halves(const AttentionCase& c) {
  const SplitProblem<T> problem(split_case(well_conditioned(c), 1));
  SCOPED_TRACE(describe(problem.about));
  expect_gpu_close<T>(DeviceHalves<T>(*problem.shards[0]).run(), run_reference(problem.whole),
                      problem.about.whole);
}

template <typename T>
class GpuSplit : public GpuTest {};
TYPED_TEST_SUITE(GpuSplit, DeviceTypes, TypeNames);

TYPED_TEST(GpuSplit, HeadSizesAndNorms) {
  for (const int64_t dim : {64, 40, 128}) {
    for (const Norm norm : kNorms) {
      AttentionCase c{.batch = 2, .heads = 4, .group = 2, .queries = 70, .keys = 130, .dim = dim};
      c.value_dim = dim == 40 ? 24 : dim;
      c.options.norm = norm;
      c.options.q_rope = c.options.k_rope = Rope::line();
      c.set_tail(dim == 64 ? 0 : 3);
      check_halves<TypeParam>(c);
    }
  }
}

TYPED_TEST(GpuSplit, KeyCountsAndPackedSequences) {
  AttentionCase counted{.batch = 2, .queries = 9, .keys = 100, .dim = 64, .value_dim = 64};
  counted.lengths.key_counts = {100, 33};
  counted.options.q_rope = counted.options.k_rope = Rope::grid(10);
  check_halves<TypeParam>(counted);
  AttentionCase packed{.heads = 2, .dim = 64, .value_dim = 64};
  packed.pack({1, 65, 30}, {70, 1, 64});
  check_halves<TypeParam>(packed);
}

}  // namespace
}  // namespace mala::test
