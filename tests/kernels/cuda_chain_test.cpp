// Calls on one stream that nobody waits for, each of which takes what the one before it leaves: a
// kernel may begin before the one ahead of it has ended, also where that belongs to another call.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "mala/kernels/cuda/attention.h"
#include "mala/kernels/cuda/causal.h"
#include "tests/kernels/cuda_attention_run.h"

namespace mala::test {
namespace {

class GpuChains : public GpuTest {};

struct Sizes {
  int64_t heads, tokens, dim;
  bool causal = false;
};

enum class How { kOneByOne, kInARow, kInAGraph };

// Of one shape, each with its own memory, which holds NaN at first.
class Chain {
 public:
  explicit Chain(const Sizes& shape) : shape_(shape), state_(state_bytes()), scratch_(scratch()) {
    for (DeviceBytes& x : tensors_) fill(x);
  }

  // Attention of attention, its gradients, and attention of those: all results.
  std::vector<uint16_t> run(How how) {
    if (how == How::kInAGraph) {
      run_in_a_graph();
    } else {
      launch_all(how == How::kOneByOne);
    }
    MALA_CUDA_CHECK(cudaDeviceSynchronize());
    std::vector<uint16_t> all;
    for (const DeviceBytes* x : {&out_, &out_of_out_, &dq_, &dk_, &dv_, &last_}) {
      std::vector<uint16_t> some(x->size() / 2);
      MALA_CUDA_CHECK(cudaMemcpy(some.data(), x->data(), x->size(), cudaMemcpyDeviceToHost));
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

 private:
  using View = HeadsView<BFloat16>;

  void launch_all(bool waits) {
    waits_ = waits;
    forward(q_, k_, v_, out_);
    forward(out_, out_, v_, out_of_out_);
    backward(out_, out_, v_, out_of_out_);
    forward(dq_, dk_, dv_, last_);
  }
  void run_in_a_graph() {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    MALA_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    MALA_CUDA_CHECK(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal));
    launch_all(false);
    MALA_CUDA_CHECK(cudaStreamEndCapture(stream_, &graph));
    MALA_CUDA_CHECK(cudaGraphInstantiate(&ready, graph, 0));
    for (int i = 0; i < 2; ++i) MALA_CUDA_CHECK(cudaGraphLaunch(ready, stream_));
    MALA_CUDA_CHECK(cudaStreamSynchronize(stream_));
    MALA_CUDA_CHECK(cudaGraphExecDestroy(ready));
    MALA_CUDA_CHECK(cudaGraphDestroy(graph));
    MALA_CUDA_CHECK(cudaStreamDestroy(stream_));
  }

  size_t bytes() const {
    return static_cast<size_t>(shape_.heads * shape_.tokens * shape_.dim) * sizeof(BFloat16);
  }
  View view(const DeviceBytes& x) const {
    return dense_heads(reinterpret_cast<BFloat16*>(x.data()), int64_t{1}, shape_.heads,
                       shape_.tokens, shape_.dim);
  }
  void fill(DeviceBytes& x) {
    std::vector<BFloat16> numbers(bytes() / sizeof(BFloat16));
    for (BFloat16& number : numbers) {
      seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
      number = round_to<BFloat16>(static_cast<float>(seed_ >> 40) * 0x1p-23f - 1.0f);
    }
    MALA_CUDA_CHECK(cudaMemcpy(x.data(), numbers.data(), x.size(), cudaMemcpyHostToDevice));
  }
  AttentionInputs<BFloat16> inputs(const DeviceBytes& q, const DeviceBytes& k,
                                   const DeviceBytes& v) const {
    return {view(q), view(k), view(v)};
  }
  AttentionOptions options() const {
    AttentionOptions with;
    with.q_rope = with.k_rope = shape_.causal ? Rope::line() : Rope::grid(20);
    return with;
  }
  size_t state_bytes() const {
    return sizeof(float) *
           static_cast<size_t>(attention_state_size(1, shape_.heads, shape_.dim, shape_.dim));
  }
  size_t scratch() const {
    const auto in = inputs(q_, k_, v_);
    const int64_t bytes =
        shape_.causal ? std::max(gpu::causal_forward_scratch_bytes<BFloat16>({in}, options()),
                                 gpu::causal_backward_scratch_bytes<BFloat16>({in}, options()))
                      : std::max(gpu::attention_forward_scratch_bytes<BFloat16>(in, options()),
                                 gpu::attention_backward_scratch_bytes<BFloat16>(in, options()));
    return static_cast<size_t>(bytes);
  }
  std::span<float> state() const {
    return {reinterpret_cast<float*>(state_.data()), state_.size() / sizeof(float)};
  }
  std::span<std::byte> space() const { return {scratch_.data(), scratch_.size()}; }
  void wait() const {
    if (waits_) MALA_CUDA_CHECK(cudaDeviceSynchronize());
  }

  void forward(const DeviceBytes& q, const DeviceBytes& k, const DeviceBytes& v,
               const DeviceBytes& out) const {
    const auto in = inputs(q, k, v);
    if (shape_.causal) {
      gpu::causal_forward<BFloat16>({in}, options(), view(out), {}, space(), stream_);
    } else {
      gpu::attention_forward<BFloat16>(in, options(), view(out), state(), space(), stream_);
    }
    wait();
  }
  void backward(const DeviceBytes& q, const DeviceBytes& k, const DeviceBytes& v,
                const DeviceBytes& gradient) const {
    const auto in = inputs(q, k, v);
    const HeadsView<const BFloat16> given = view(gradient);
    const AttentionGradients<BFloat16> to{view(dq_), view(dk_), view(dv_)};
    if (shape_.causal) {
      gpu::causal_backward<BFloat16>({in}, options(), {given}, {to}, space(), stream_);
    } else {
      gpu::attention_backward<BFloat16>(in, options(), given, state(), to, space(), stream_);
    }
    wait();
  }

  Sizes shape_;
  uint64_t seed_ = 1;
  bool waits_ = false;
  cudaStream_t stream_ = nullptr;
  DeviceBytes tensors_[3] = {DeviceBytes(bytes()), DeviceBytes(bytes()), DeviceBytes(bytes())};
  DeviceBytes &q_ = tensors_[0], &k_ = tensors_[1], &v_ = tensors_[2];
  DeviceBytes out_{bytes()}, out_of_out_{bytes()}, dq_{bytes()}, dk_{bytes()}, dv_{bytes()},
      last_{bytes()};
  DeviceBytes state_, scratch_;
};

// Heads that are whole, that are spread, that take three kernels, and causal ones.
constexpr Sizes kShapes[] = {{4, 200, 64},  {2, 2100, 64},      {3, 300, 96},
                             {2, 300, 128}, {2, 300, 64, true}, {2, 200, 96, true}};

TEST_F(GpuChains, NobodyWaitsForACall) {
  for (const Sizes& shape : kShapes) {
    SCOPED_TRACE(str(shape.heads, " heads of ", shape.tokens, " tokens and ", shape.dim,
                     shape.causal ? ", causal" : ""));
    const std::vector<uint16_t> expected = Chain(shape).run(How::kOneByOne);
    EXPECT_EQ(std::count_if(expected.begin(), expected.end(),
                            [](uint16_t x) { return (x & 0x7F80) == 0x7F80; }),
              0)
        << "not all are numbers";
    EXPECT_EQ(Chain(shape).run(How::kInARow), expected);
    EXPECT_EQ(Chain(shape).run(How::kInAGraph), expected);
  }
}

}  // namespace
}  // namespace mala::test
