// Copies a problem to the device, runs it there, and brings the results back.
#include "tests/kernels/cuda_attention_run.h"

#include <memory>

#include "mala/kernels/cuda/attention.h"
#include "tests/kernels/cuda_compare.h"
#include "tests/kernels/cuda_memory.h"
#include "tests/support/compare.h"
#include "tests/support/guarded.h"
#include "tests/support/sequences.h"

namespace mala::test {
namespace {

// One call with all its memory.
template <typename T>
class DeviceCall {
 public:
  explicit DeviceCall(const AttentionProblem<T>& problem, int left_behind = kNanBytes)
      : problem_(problem),
        q_rope_(problem.options.q_rope),
        k_rope_(problem.options.k_rope),
        options_(problem.options),
        q_(problem.q),
        k_(problem.k),
        v_(problem.v),
        local_(problem.local),
        gate_(problem.gate),
        g_(problem.out_gradient),
        host_out_(problem.out_shape(), problem.about.layouts[kOut], Role::kOutput,
                  problem.about.misalign),
        host_(problem),
        out_(host_out_),
        dq_(host_.q),
        dk_(host_.k),
        dv_(host_.v),
        dlocal_(host_.local),
        dgate_(host_.gate),
        state_(state_size(problem.about) * sizeof(float)) {
    options_.q_rope = q_rope_.rope;
    options_.k_rope = k_rope_.rope;
    forward_scratch_ = std::make_unique<DeviceBytes>(
        gpu::attention_forward_scratch_bytes(inputs(), options_), left_behind);
    backward_scratch_ = std::make_unique<DeviceBytes>(
        gpu::attention_backward_scratch_bytes(inputs(), options_), left_behind);
    MALA_CUDA_CHECK(cudaDeviceSynchronize());  // streams of a test do not wait for the default one
  }

  void launch(Pass pass, cudaStream_t stream) {
    const std::span<float> state{reinterpret_cast<float*>(state_.data()),
                                 state_.size() / sizeof(float)};
    launch_forward(state, stream);
    if (pass == Pass::kForward) return;
    gpu::attention_backward<T>(
        inputs(), options_, g_.view(), state,
        {dq_.output(), dk_.output(), dv_.output(), dlocal_.output(), dgate_.output()},
        span_of(*backward_scratch_), stream);
  }

  void launch_forward(std::span<float> state, cudaStream_t stream) {
    gpu::attention_forward<T>(inputs(), options_, out_.output(), state, span_of(*forward_scratch_),
                              stream);
  }

  AttentionResults results(Pass pass) {
    MALA_CUDA_CHECK(cudaDeviceSynchronize());
    out_.copy_back(host_out_);
    dq_.copy_back(host_.q);
    dk_.copy_back(host_.k);
    dv_.copy_back(host_.v);
    dlocal_.copy_back(host_.local);
    dgate_.copy_back(host_.gate);
    EXPECT_TRUE(host_out_.guards_intact() && host_.guards_intact())
        << "memory beside an output was written: " << describe(problem_.about);
    EXPECT_TRUE(state_.guards_intact() && forward_scratch_->guards_intact() &&
                backward_scratch_->guards_intact())
        << "memory beside the state or the scratch was written: " << describe(problem_.about);
    if (pass == Pass::kForward) return {.out = host_out_.values()};
    return host_.with(host_out_.values());
  }

 private:
  static std::span<std::byte> span_of(const DeviceBytes& bytes) {
    return {bytes.data(), bytes.size()};
  }
  static int64_t state_size(const AttentionCase& c) {
    return attention_state_size(c.sequences(), c.kv_heads(), c.dim, c.value_dim);
  }
  AttentionInputs<T> inputs() const {
    return {q_.view(),     k_.view(),    v_.view(),
            local_.view(), gate_.view(), problem_.about.lengths.view()};
  }

  const AttentionProblem<T>& problem_;
  DeviceRope q_rope_, k_rope_;
  AttentionOptions options_;
  DeviceTensor<T> q_, k_, v_, local_, gate_, g_;
  Tensor<T> host_out_;
  GuardedGradients<T> host_;
  DeviceTensor<T> out_, dq_, dk_, dv_, dlocal_, dgate_;
  DeviceBytes state_;
  std::unique_ptr<DeviceBytes> forward_scratch_, backward_scratch_;  // each call has its own bytes
};

}  // namespace

template <typename T>
AttentionResults run_on_gpu(const AttentionProblem<T>& problem, Pass pass, int left_behind) {
  DeviceCall<T> call(problem, left_behind);
  call.launch(pass, nullptr);
  return call.results(pass);
}

template <typename T>
AttentionResults run_without_state(const AttentionProblem<T>& problem) {
  DeviceCall<T> call(problem);
  call.launch_forward({}, nullptr);
  return call.results(Pass::kForward);
}

template <typename T>
std::vector<AttentionResults> run_often_on_gpu(const AttentionProblem<T>& problem, int times,
                                               How how) {
  std::vector<std::unique_ptr<DeviceCall<T>>> calls;
  std::vector<cudaStream_t> streams(times);
  for (int i = 0; i < times; ++i) {
    calls.push_back(std::make_unique<DeviceCall<T>>(problem));
    MALA_CUDA_CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
  }
  if (how == How::kStreams) {
    for (int i = 0; i < times; ++i) calls[i]->launch(Pass::kForwardBackward, streams[i]);
  } else {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    MALA_CUDA_CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
    for (int i = 0; i < times; ++i) calls[i]->launch(Pass::kForwardBackward, streams[0]);
    MALA_CUDA_CHECK(cudaStreamEndCapture(streams[0], &graph));
    MALA_CUDA_CHECK(cudaGraphInstantiate(&ready, graph, 0));
    for (int replay = 0; replay < 3; ++replay) MALA_CUDA_CHECK(cudaGraphLaunch(ready, streams[0]));
    MALA_CUDA_CHECK(cudaStreamSynchronize(streams[0]));
    MALA_CUDA_CHECK(cudaGraphExecDestroy(ready));
    MALA_CUDA_CHECK(cudaGraphDestroy(graph));
  }
  std::vector<AttentionResults> results;
  for (int i = 0; i < times; ++i) {
    results.push_back(calls[i]->results(Pass::kForwardBackward));
    MALA_CUDA_CHECK(cudaStreamDestroy(streams[i]));
  }
  return results;
}

template <typename T>
void expect_gpu_close(const AttentionResults& actual, const AttentionResults& expected,
                      const AttentionCase& c) {
  if constexpr (std::is_same_v<T, float>) {
    expect_close<float>(actual, expected, c);
  } else {
    for (int64_t s = 0; s < c.sequences(); ++s) {
      const AttentionCase one = sequence_case(c, s);
      if (!expect_roundings<T>(sequence_results(actual, c, s), sequence_results(expected, c, s),
                               one, sight_of(one))) {
        return;
      }
      const std::vector<double> uncounted = uncounted_gradients(actual, c, s);
      EXPECT_EQ(max_size(uncounted), 0) << "keys beyond the count have gradients";
    }
  }
}

template <typename T>
void check_on_gpu(const AttentionCase& c) {
  const AttentionProblem<T> problem(well_conditioned(c));
  expect_gpu_close<T>(run_on_gpu(problem), run_reference(problem), problem.about);
}

#define MALA_INSTANTIATE(T)                                                                      \
  template AttentionResults run_on_gpu(const AttentionProblem<T>&, Pass, int);                   \
  template AttentionResults run_without_state(const AttentionProblem<T>&);                       \
  template std::vector<AttentionResults> run_often_on_gpu(const AttentionProblem<T>&, int, How); \
  template void expect_gpu_close<T>(const AttentionResults&, const AttentionResults&,            \
                                    const AttentionCase&);                                       \
  template void check_on_gpu<T>(const AttentionCase&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::test
