// How long the operator takes on the GPU, beside a copy that moves as many bytes.
//
//   cuda_attention_bench [--causal [--state]] [--no-rope] [--tail] [--dtype TYPE] [SHAPE ...]
//
// A shape is B,H,N,D; without one, those of the project. A type is bfloat16, float16 or float32.
// RoPE is in a grid, or along a line in the causal form. A tail is a local term and a gate, as
// MAViT has them. With --state a causal forward leaves the state after its text.
//
// Each result is compared with the definition before it is timed. Times are those of the device:
// a graph of many calls, replayed, the median of several replays. That of `forward` is inference's,
// without a state; in `both` forward leaves the state that backward reads.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "mala/kernels/cuda/attention.h"
#include "mala/kernels/cuda/causal.h"
#include "mala/kernels/cuda/check.h"
#include "mala/kernels/cuda/devices.h"
#include "mala/kernels/reference/attention.h"
#include "mala/kernels/reference/causal.h"

namespace mala {
namespace {

struct Shape {
  int64_t batch, heads, tokens, dim;
  int64_t elements() const { return batch * heads * tokens * dim; }
};

constexpr Shape kShapes[] = {{64, 1, 3136, 64},  {64, 1, 3136, 96}, {4, 16, 16384, 64},
                             {4, 8, 16384, 128}, {256, 6, 256, 64}, {64, 2, 784, 64},
                             {1, 1, 65536, 64},  {1, 2, 16384, 64}};
constexpr Shape kCausalShapes[] = {{4, 16, 8192, 64}, {4, 8, 8192, 128}};

struct Form {
  bool causal = false, rope = true, tail = false, state = false;

  // Tensors that a forward reads and writes, and both passes.
  int forward_traversals() const { return tail ? 6 : 4; }
  int all_traversals() const { return tail ? 17 : 11; }
};

struct DeviceMemory {
  explicit DeviceMemory(int64_t bytes) : size(static_cast<size_t>(bytes)) {
    MALA_CUDA_CHECK(cudaMalloc(&data, size));
  }
  ~DeviceMemory() { cudaFree(data); }
  DeviceMemory(const DeviceMemory&) = delete;
  std::byte* data = nullptr;
  size_t size;
};

// Random numbers, the same block again and again: two heads are never alike unless they
// are a whole number of blocks apart, so that the block's size is odd.
template <typename T>
class RandomTensor {
 public:
  RandomTensor(const Shape& shape, uint64_t seed)
      : shape_(shape), memory_(kSize * shape.elements()) {
    std::mt19937_64 bits(seed);
    std::vector<T> block(std::min<int64_t>(shape.elements(), kBlock));
    for (T& x : block) {
      x = round_to<T>(static_cast<float>(bits() >> 40) * 0x1p-23f - 1.0f);
    }
    for (int64_t first = 0; first < shape.elements(); first += kBlock) {
      const int64_t count = std::min(kBlock, shape.elements() - first);
      MALA_CUDA_CHECK(cudaMemcpy(memory_.data + kSize * first, block.data(), kSize * count,
                                 cudaMemcpyHostToDevice));
    }
  }
  HeadsView<T> view() const {
    return dense_heads(reinterpret_cast<T*>(memory_.data), shape_.batch, shape_.heads,
                       shape_.tokens, shape_.dim);
  }
  // One head as doubles.
  std::vector<double> head(int64_t index) const {
    std::vector<T> raw(shape_.tokens * shape_.dim);
    MALA_CUDA_CHECK(cudaMemcpy(raw.data(),
                               memory_.data + kSize * index * shape_.tokens * shape_.dim,
                               kSize * raw.size(), cudaMemcpyDeviceToHost));
    std::vector<double> values(raw.size());
    std::transform(raw.begin(), raw.end(), values.begin(), [](T x) { return to_float(x); });
    return values;
  }

 private:
  static constexpr int64_t kSize = sizeof(T);
  static constexpr int64_t kBlock = (1 << 22) + 24;
  Shape shape_;
  DeviceMemory memory_;
};

// A local term and a gate, and their gradients.
template <typename T>
struct Tail {
  explicit Tail(const Shape& s) : local(s, 9), gate(s, 10), d_local(s, 11), d_gate(s, 12) {}
  RandomTensor<T> local, gate, d_local, d_gate;
};

template <typename T>
struct Problem {
  Problem(const Shape& s, const Form& with)
      : shape(s),
        form(with),
        q(s, 1),
        k(s, 2),
        v(s, 3),
        g(s, 4),
        out(s, 5),
        dq(s, 6),
        dk(s, 7),
        dv(s, 8),
        tail(with.tail ? std::make_unique<Tail<T>>(s) : nullptr),
        state(4 * attention_state_size(s.batch, s.heads, s.dim, s.dim)),
        sums_after(8 * attention_state_size(s.batch, s.heads, s.dim, s.dim)),
        counts_after(8 * s.batch),
        scratch(scratch_bytes()) {}

  AttentionInputs<T> inputs() const {
    AttentionInputs<T> all{q.view(), k.view(), v.view()};
    if (tail) all.local = tail->local.view(), all.gate = tail->gate.view();
    return all;
  }
  AttentionGradients<T> gradients() const {
    AttentionGradients<T> all{dq.view(), dk.view(), dv.view()};
    if (tail) all.local = tail->d_local.view(), all.gate = tail->d_gate.view();
    return all;
  }
  AttentionOptions options() const {
    AttentionOptions with;
    const int64_t width = std::max<int64_t>(1, std::lround(std::sqrt(shape.tokens)));
    if (form.rope) with.q_rope = with.k_rope = form.causal ? Rope::line() : Rope::grid(width);
    return with;
  }
  int64_t scratch_bytes() const {
    if (form.causal) {
      return std::max(gpu::causal_forward_scratch_bytes<T>({inputs()}, options()),
                      gpu::causal_backward_scratch_bytes<T>({inputs()}, options()));
    }
    return std::max(gpu::attention_forward_scratch_bytes<T>(inputs(), options()),
                    gpu::attention_backward_scratch_bytes<T>(inputs(), options()));
  }
  std::span<float> state_span() const {
    return {reinterpret_cast<float*>(state.data), state.size / 4};
  }
  CausalStateAfter after() const {
    if (!form.state) return {};
    return {{reinterpret_cast<double*>(sums_after.data), sums_after.size / 8},
            {reinterpret_cast<int64_t*>(counts_after.data), counts_after.size / 8}};
  }
  // One head's, which the call left.
  std::vector<double> state_of(int64_t head) const {
    const int64_t size = attention_state_size(1, 1, shape.dim, shape.dim);
    std::vector<double> sums(size);
    MALA_CUDA_CHECK(cudaMemcpy(sums.data(), after().sums.data() + head * size, 8 * size,
                               cudaMemcpyDeviceToHost));
    return sums;
  }
  std::span<std::byte> scratch_span() const { return {scratch.data, scratch.size}; }

  // Without a state for a backward, which the causal form never has.
  void forward(cudaStream_t stream) const { forward({}, stream); }
  void both(cudaStream_t stream) const {
    forward(state_span(), stream);
    backward(stream);
  }
  void forward(std::span<float> kept, cudaStream_t stream) const {
    if (form.causal) {
      return gpu::causal_forward<T>({inputs()}, options(), out.view(), after(), scratch_span(),
                                    stream);
    }
    gpu::attention_forward<T>(inputs(), options(), out.view(), kept, scratch_span(), stream);
  }
  void backward(cudaStream_t stream) const {
    if (form.causal) {
      return gpu::causal_backward<T>({inputs()}, options(), {g.view()}, {gradients()},
                                     scratch_span(), stream);
    }
    gpu::attention_backward<T>(inputs(), options(), g.view(), state_span(), gradients(),
                               scratch_span(), stream);
  }

  Shape shape;
  Form form;
  RandomTensor<T> q, k, v, g, out, dq, dk, dv;
  std::unique_ptr<Tail<T>> tail;
  DeviceMemory state, sums_after, counts_after, scratch;
};

double relative_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error += (actual[i] - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

// The last head against the definition; the larger of the errors of out, without a state and with
// one, and the gradients.
template <typename T>
double error_of(const Problem<T>& problem) {
  const Shape& s = problem.shape;
  const int64_t head = s.batch * s.heads - 1;
  problem.forward(nullptr);
  MALA_CUDA_CHECK(cudaDeviceSynchronize());
  const std::vector<double> alone = problem.out.head(head);
  problem.both(nullptr);
  MALA_CUDA_CHECK(cudaDeviceSynchronize());
  auto view = [&](std::vector<double>& x) { return dense_heads(x.data(), 1, 1, s.tokens, s.dim); };
  std::vector<double> q = problem.q.head(head), k = problem.k.head(head), v = problem.v.head(head),
                      g = problem.g.head(head), out = q, dq = q, dk = q, dv = q;
  std::vector<double> local, gate, d_local = q, d_gate = q;
  AttentionInputs<double> inputs{view(q), view(k), view(v)};
  AttentionGradients<double> gradients{view(dq), view(dk), view(dv)};
  const Tail<T>* tail = problem.tail.get();
  if (tail) {
    local = tail->local.head(head), gate = tail->gate.head(head);
    inputs.local = view(local), inputs.gate = view(gate);
    gradients.local = view(d_local), gradients.gate = view(d_gate);
  }
  double of_state = 0;
  if (problem.form.causal) {
    std::vector<double> sums(problem.form.state ? attention_state_size(1, 1, s.dim, s.dim) : 0);
    std::vector<int64_t> counts(sums.empty() ? 0 : 1);
    reference::causal_forward({inputs}, problem.options(), view(out), {sums, counts});
    if (!sums.empty()) of_state = relative_error(problem.state_of(head), sums);
    reference::causal_backward({inputs}, problem.options(), {view(g)}, {gradients});
  } else {
    reference::attention_forward(inputs, problem.options(), view(out));
    reference::attention_backward(inputs, problem.options(), view(g), gradients);
  }
  double most = std::max(
      {of_state, relative_error(alone, out), relative_error(problem.out.head(head), out),
       relative_error(problem.dq.head(head), dq), relative_error(problem.dk.head(head), dk),
       relative_error(problem.dv.head(head), dv)});
  if (!tail) return most;
  return std::max({most, relative_error(tail->d_local.head(head), d_local),
                   relative_error(tail->d_gate.head(head), d_gate)});
}

// Milliseconds of one call on the device.
double time_of(const std::function<void(cudaStream_t)>& call) {
  constexpr int kCalls = 20, kReplays = 9;
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  MALA_CUDA_CHECK(cudaStreamCreate(&stream));
  MALA_CUDA_CHECK(cudaEventCreate(&begin));
  MALA_CUDA_CHECK(cudaEventCreate(&end));
  MALA_CUDA_CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int i = 0; i < kCalls; ++i) call(stream);
  MALA_CUDA_CHECK(cudaStreamEndCapture(stream, &graph));
  MALA_CUDA_CHECK(cudaGraphInstantiate(&ready, graph, 0));
  std::vector<float> times;
  for (int replay = 0; replay < kReplays + 2; ++replay) {
    MALA_CUDA_CHECK(cudaEventRecord(begin, stream));
    MALA_CUDA_CHECK(cudaGraphLaunch(ready, stream));
    MALA_CUDA_CHECK(cudaEventRecord(end, stream));
    MALA_CUDA_CHECK(cudaEventSynchronize(end));
    float milliseconds = 0;
    MALA_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
    if (replay >= 2) times.push_back(milliseconds / kCalls);  // the first ones warm up
  }
  std::sort(times.begin(), times.end());
  MALA_CUDA_CHECK(cudaGraphExecDestroy(ready));
  MALA_CUDA_CHECK(cudaGraphDestroy(graph));
  MALA_CUDA_CHECK(cudaEventDestroy(begin));
  MALA_CUDA_CHECK(cudaEventDestroy(end));
  MALA_CUDA_CHECK(cudaStreamDestroy(stream));
  return times[times.size() / 2];
}

// A copy that reads and writes as many bytes as so many traversals of a tensor.
double time_of_copy(int64_t tensor_bytes, int traversals) {
  const int64_t bytes = tensor_bytes * traversals / 2;
  const DeviceMemory from(bytes), to(bytes);
  return time_of([&](cudaStream_t stream) {
    MALA_CUDA_CHECK(
        cudaMemcpyAsync(to.data, from.data, from.size, cudaMemcpyDeviceToDevice, stream));
  });
}

template <typename T>
void report(const Shape& shape, const Form& form) {
  const Problem<T> problem(shape, form);
  const double error = error_of(problem);
  std::printf("%lld,%lld,%lld,%lld: error %.1e", static_cast<long long>(shape.batch),
              static_cast<long long>(shape.heads), static_cast<long long>(shape.tokens),
              static_cast<long long>(shape.dim), error);
  constexpr double kMostError = 1e-2;  // a few roundings of bfloat16
  if (!(error < kMostError)) {
    std::printf(" is too large: not timed\n");
    return;
  }
  const double forward = time_of([&](cudaStream_t s) { problem.forward(s); });
  const double backward = time_of([&](cudaStream_t s) { problem.backward(s); });
  const double both = time_of([&](cudaStream_t s) { problem.both(s); });
  const int64_t bytes = shape.elements() * static_cast<int64_t>(sizeof(T));
  // A copy of very many bytes may be slower than its parts.
  const int once = form.forward_traversals(), all = form.all_traversals();
  const double limit = time_of_copy(bytes, once);
  const double both_limit = std::min(time_of_copy(bytes, all), limit * all / once);
  std::printf(
      "  forward %.4f ms, %.2f of the limit %.4f;  backward %.4f;  both %.4f ms, %.2f of %.4f\n",
      forward, forward / limit, limit, backward, both, both / both_limit, both_limit);
  std::fflush(stdout);
}

Shape parse(const char* text) {
  long long b = 0, h = 0, n = 0, d = 0;
  check(std::sscanf(text, "%lld,%lld,%lld,%lld", &b, &h, &n, &d) == 4, "cuda_attention_bench",
        "cannot read the shape '", text, "'; write B,H,N,D, such as 64,1,3136,64");
  return {b, h, n, d};
}

}  // namespace
}  // namespace mala

int main(int argc, char** argv) try {
  if (mala::gpu::devices().empty()) {
    std::fprintf(stderr, "%s\n", mala::gpu::why_no_device().c_str());
    return 1;
  }
  std::vector<mala::Shape> shapes;
  mala::Form form;
  std::string dtype = "bfloat16";
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "--no-rope") {
      form.rope = false;
    } else if (text == "--causal") {
      form.causal = true;
    } else if (text == "--state") {
      form.state = true;
    } else if (text == "--tail") {
      form.tail = true;
    } else if (text == "--dtype" && i + 1 < argc) {
      dtype = argv[++i];
    } else {
      shapes.push_back(mala::parse(argv[i]));
    }
  }
  mala::check(
      form.causal || !form.state, "cuda_attention_bench",
      "--state came without --causal; only the causal form has a state after a text: pass both");
  if (shapes.empty() && form.causal) {
    shapes.assign(std::begin(mala::kCausalShapes), std::end(mala::kCausalShapes));
  } else if (shapes.empty()) {
    shapes.assign(std::begin(mala::kShapes), std::end(mala::kShapes));
  }
  const auto report = dtype == "bfloat16"  ? mala::report<mala::BFloat16>
                      : dtype == "float16" ? mala::report<mala::Float16>
                      : dtype == "float32" ? mala::report<float>
                                           : nullptr;
  mala::check(report, "cuda_attention_bench", "unknown --dtype '", dtype,
              "'; bfloat16, float16 and float32 work");
  std::printf("%s, %s, mala%s%s%s, %s\n", mala::gpu::devices().front().name.c_str(), dtype.c_str(),
              form.causal ? ", causal" : "", form.state ? " and its state" : "",
              form.tail ? ", local term and gate" : "",
              !form.rope    ? "without RoPE"
              : form.causal ? "RoPE along a line"
                            : "RoPE in a grid");
  for (const mala::Shape& shape : shapes) report(shape, form);
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
