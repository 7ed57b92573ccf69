// Copies a problem to the device, runs it there, and brings the results back.
#include "tests/kernels/cuda_attention_run.h"

#include <cuda_runtime_api.h>

#include <cmath>
#include <memory>

#include "mala/kernels/cuda/attention.h"
#include "mala/kernels/cuda/check.h"
#include "tests/support/compare.h"
#include "tests/support/guarded.h"
#include "tests/support/sequence_comparison.h"
#include "tests/support/sequences.h"

namespace mala::test {
namespace {

// Device memory of an exact number of bytes between guards, full of NaN at first.
class DeviceBytes {
 public:
  explicit DeviceBytes(size_t size) : size_(size) {
    MALA_CUDA_CHECK(cudaMalloc(&start_, size + 2 * kGuard));
    MALA_CUDA_CHECK(cudaMemset(start_, kGuardByte, size + 2 * kGuard));
    MALA_CUDA_CHECK(cudaMemset(data(), kPoison, size));
  }
  ~DeviceBytes() { cudaFree(start_); }
  DeviceBytes(const DeviceBytes&) = delete;

  std::byte* data() const { return start_ + kGuard; }
  size_t size() const { return size_; }

  bool guards_intact() const {
    std::vector<std::byte> guards(2 * kGuard);
    MALA_CUDA_CHECK(cudaMemcpy(guards.data(), start_, kGuard, cudaMemcpyDeviceToHost));
    MALA_CUDA_CHECK(
        cudaMemcpy(guards.data() + kGuard, data() + size_, kGuard, cudaMemcpyDeviceToHost));
    for (const std::byte guard : guards)
      if (guard != std::byte{kGuardByte}) return false;
    return true;
  }

 private:
  static constexpr size_t kGuard = 256;  // also what keeps the alignment
  static constexpr int kGuardByte = 0xa5, kPoison = 0xff;

  std::byte* start_ = nullptr;
  size_t size_;
};

// All memory of a host tensor, on the device.
template <typename T>
class DeviceTensor {
 public:
  explicit DeviceTensor(const Tensor<T>& host)
      : bytes_(host.memory().size() * sizeof(T)), view_(host.view()) {
    if (!host.exists()) return;
    MALA_CUDA_CHECK(
        cudaMemcpy(bytes_.data(), host.memory().data(), bytes_.size(), cudaMemcpyHostToDevice));
    const ptrdiff_t first = view_.data - host.memory().data();
    view_.data = reinterpret_cast<const T*>(bytes_.data()) + first;
  }

  HeadsView<const T> view() const { return view_; }
  HeadsView<T> output() const {
    const HeadsView<const T>& x = view_;
    return {const_cast<T*>(x.data), x.batch,       x.heads,        x.tokens,    x.dim,
            x.batch_stride,         x.head_stride, x.token_stride, x.dim_stride};
  }
  void copy_back(Tensor<T>& host) const {
    if (!host.exists()) return;
    MALA_CUDA_CHECK(cudaMemcpy(const_cast<T*>(host.memory().data()), bytes_.data(), bytes_.size(),
                               cudaMemcpyDeviceToHost));
  }

 private:
  DeviceBytes bytes_;
  HeadsView<const T> view_;
};

// The caller's tables of cos and sin, rows and all that lies between them.
class DeviceRope {
 public:
  explicit DeviceRope(const Rope& host) : cos_(bytes_of(host)), sin_(bytes_of(host)), rope(host) {
    if (host.kind != Rope::Kind::kTable) return;
    MALA_CUDA_CHECK(cudaMemcpy(cos_.data(), host.cos, cos_.size(), cudaMemcpyHostToDevice));
    MALA_CUDA_CHECK(cudaMemcpy(sin_.data(), host.sin, sin_.size(), cudaMemcpyHostToDevice));
    rope.cos = reinterpret_cast<const float*>(cos_.data());
    rope.sin = reinterpret_cast<const float*>(sin_.data());
  }

 private:
  static size_t bytes_of(const Rope& host) {
    return host.kind == Rope::Kind::kTable ? host.table_rows * host.table_stride * sizeof(float)
                                           : 0;
  }
  DeviceBytes cos_, sin_;

 public:
  Rope rope;
};

// One call with all its memory.
template <typename T>
class DeviceCall {
 public:
  explicit DeviceCall(const AttentionProblem<T>& problem)
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
    scratch_ = std::make_unique<DeviceBytes>(gpu::attention_scratch_bytes(inputs(), options_));
    MALA_CUDA_CHECK(cudaDeviceSynchronize());  // streams of a test do not wait for the default one
  }

  void launch(Pass pass, cudaStream_t stream) {
    const std::span<float> state{reinterpret_cast<float*>(state_.data()),
                                 state_.size() / sizeof(float)};
    const std::span<std::byte> scratch{scratch_->data(), scratch_->size()};
    gpu::attention_forward<T>(inputs(), options_, out_.output(), state, scratch, stream);
    if (pass == Pass::kForward) return;
    gpu::attention_backward<T>(
        inputs(), options_, g_.view(), state,
        {dq_.output(), dk_.output(), dv_.output(), dlocal_.output(), dgate_.output()}, scratch,
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
    EXPECT_TRUE(state_.guards_intact() && scratch_->guards_intact())
        << "memory beside the state or the scratch was written: " << describe(problem_.about);
    if (pass == Pass::kForward) return {.out = host_out_.values()};
    return host_.with(host_out_.values());
  }

 private:
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
  std::unique_ptr<DeviceBytes> scratch_;
};

double rms(const std::vector<double>& values) {
  double sum = 0;
  for (const double x : values) sum += x * x;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> d(a.size());
  for (size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return d;
}

// Half a unit of the last place, and what the two parts of a state's numbers leave of a term.
template <typename T>
constexpr double kHalfUnit = std::is_same_v<T, BFloat16> ? 0x1p-9 : 0x1p-12;
template <typename T>
constexpr double kLeastPart = kHalfUnit<T> / 32;

// Errors of all that is rounded inside, besides the last rounding, may be as large as that.
constexpr double kRoundings = 2;
// The product of a gate and the gradient of out is rounded before it is used: a share of the terms,
// which sums over few tokens can leave far behind.
constexpr double kGateRounding = 0.5;

template <typename T>
bool expect_part(const char* what, const std::vector<double>& actual,
                 const std::vector<double>& expected, double term_size, const AttentionCase& c) {
  if (expected.empty()) return true;
  std::vector<double> rounded_once(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) rounded_once[i] = to_float(rounded<T>(expected[i]));
  // A few numbers may happen to be round: as many digits as numbers usually have are always lost.
  const double rounding =
      std::max(rms(difference(rounded_once, expected)), 0.4 * kHalfUnit<T> * rms(expected));
  const double error = actual.size() == expected.size() ? rms(difference(actual, expected)) : NAN;
  const double gate_rounding = c.gate ? kGateRounding * kHalfUnit<T> : 0;
  const double bound = kRoundings * rounding + (kLeastPart<T> + gate_rounding) * term_size;
  EXPECT_LE(error, bound) << what << " is wrong, of the size " << rms(expected)
                          << "\n  in the case " << describe(c);
  return error <= bound;
}

template <typename T>
bool expect_sequence(const AttentionResults& actual, const AttentionResults& expected,
                     const AttentionCase& one) {
  const TermSizes sizes(one, sight_of(one));
  bool close = expect_part<T>("out", actual.out, expected.out, sizes.out, one);
  close &= expect_part<T>("the gradient of q", actual.q, expected.q, sizes.q, one);
  close &= expect_part<T>("the gradient of k", actual.k, expected.k, sizes.k, one);
  close &= expect_part<T>("the gradient of v", actual.v, expected.v, sizes.v, one);
  close &= expect_part<T>("the gradient of local", actual.local, expected.local, 1, one);
  close &= expect_part<T>("the gradient of gate", actual.gate, expected.gate, sizes.out, one);
  return close;
}

}  // namespace

template <typename T>
AttentionResults run_on_gpu(const AttentionProblem<T>& problem, Pass pass) {
  DeviceCall<T> call(problem);
  call.launch(pass, nullptr);
  return call.results(pass);
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
      if (!expect_sequence<T>(sequence_results(actual, c, s), sequence_results(expected, c, s),
                              sequence_case(c, s))) {
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
  template AttentionResults run_on_gpu(const AttentionProblem<T>&, Pass);                        \
  template std::vector<AttentionResults> run_often_on_gpu(const AttentionProblem<T>&, int, How); \
  template void expect_gpu_close<T>(const AttentionResults&, const AttentionResults&,            \
                                    const AttentionCase&);                                       \
  template void check_on_gpu<T>(const AttentionCase&)
MALA_INSTANTIATE(float);
MALA_INSTANTIATE(BFloat16);
MALA_INSTANTIATE(Float16);
#undef MALA_INSTANTIATE

}  // namespace mala::test
