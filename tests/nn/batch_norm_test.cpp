// A batch norm over two processes against torch's own over the whole batch.
#include "mala/nn/batch_norm.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace mala::nn {
namespace {

// Two threads stand in for two processes: each waits for the other's part.
class Meeting {
 public:
  void sum(Tensor& tensor) {
    const torch::NoGradGuard no_gradients;
    std::unique_lock lock(mutex_);
    if (!waiting_.defined()) {
      waiting_ = tensor;
      const int64_t round = round_;
      met_.wait(lock, [&] { return round_ != round; });
    } else {
      const Tensor total = waiting_ + tensor;
      waiting_.copy_(total);
      tensor.copy_(total);
      waiting_ = Tensor();
      ++round_;
      met_.notify_all();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable met_;
  Tensor waiting_;
  int64_t round_ = 0;
};

struct Result {
  Tensor out, input_gradient;
};

template <typename Norm>
Result run(Norm& norm, const Tensor& image, const Tensor& gradient) {
  const Tensor x = image.detach().clone().set_requires_grad(true);
  const Tensor out = norm->forward(x);
  out.backward(gradient);
  return {out.detach(), x.grad()};
}

// Rounding of float32 in sums over a few hundred numbers.
constexpr double kRounding = 1e-5;

double largest(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

TEST(BatchNorm, TwoHalvesAreOneBatch) {
  torch::manual_seed(3);
  const Tensor image = torch::randn({6, 4, 5, 7}) * 3 + 100;  // far from zero: squares would cancel
  const Tensor gradient = torch::randn({6, 4, 5, 7});
  torch::nn::BatchNorm2d whole(4);
  const Result expected = run(whole, image, gradient);
  Meeting meeting;
  BatchNorm norms[2] = {BatchNorm(4), BatchNorm(4)};
  Result results[2];
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      share_statistics(*norms[i], [&](Tensor& tensor) { meeting.sum(tensor); });
      // Unequal parts: three quarters of the batch, and the rest.
      const auto part = [&](const Tensor& t) { return i ? t.slice(0, 4) : t.slice(0, 0, 4); };
      results[i] = run(norms[i], part(image), part(gradient));
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto joined = [&](auto field) {
    return torch::cat({results[0].*field, results[1].*field});
  };
  EXPECT_LT(largest(joined(&Result::out), expected.out), kRounding);
  EXPECT_LT(largest(joined(&Result::input_gradient), expected.input_gradient), kRounding);
  const Tensor gradients = norms[0]->weight.grad() + norms[1]->weight.grad();
  EXPECT_LT(largest(gradients, whole->weight.grad()), 10 * kRounding);
  for (BatchNorm& norm : norms) {
    EXPECT_LT(largest(norm->running_mean, whole->running_mean), kRounding);
    EXPECT_LT(largest(norm->running_var, whole->running_var), kRounding);
    EXPECT_EQ(norm->num_batches_tracked.item<int64_t>(), 1);
  }
}

TEST(BatchNorm, AloneItIsTorchs) {
  torch::manual_seed(3);
  const Tensor image = torch::randn({6, 4, 5, 7}), gradient = torch::randn({6, 4, 5, 7});
  torch::nn::BatchNorm2d theirs(4);
  BatchNorm ours(4);
  const Result expected = run(theirs, image, gradient), found = run(ours, image, gradient);
  EXPECT_TRUE(torch::equal(found.out, expected.out));
  EXPECT_TRUE(torch::equal(found.input_gradient, expected.input_gradient));
  ours->eval();
  theirs->eval();
  EXPECT_TRUE(torch::equal(ours->forward(image), theirs->forward(image)));
}

TEST(BatchNorm, InEvaluationNobodyIsAsked) {
  BatchNorm norm(4);
  share_statistics(*norm, [](Tensor&) { ADD_FAILURE() << "asked the other processes"; });
  norm->eval();
  norm->forward(torch::randn({2, 4, 3, 3}));
}

}  // namespace
}  // namespace mala::nn
