// Counts what torch's allocators hand out.
#include "mala/train/memory.h"

#include <ATen/DeviceAccelerator.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <atomic>

#include "mala/train/precision.h"

namespace mala::train {
namespace {

class Counter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t size, size_t, size_t, c10::Device device) override {
    if (!device.is_cpu()) return;
    held_ += size;
    peak_ = std::max(peak_, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t peak() const { return peak_; }

 private:
  int64_t held_ = 0, peak_ = 0;
};

int64_t peak_of_examples(tasks::TrainingTask& task, int64_t examples,
                         const std::string& precision) {
  const int64_t peak = peak_bytes([&] {
    torch::Tensor loss;
    {
      const Autocast autocast(torch::kCPU, precision);
      loss = task.made_up_loss(examples, torch::kCPU);
    }
    loss.backward();
  });
  for (torch::Tensor& parameter : task.model().parameters()) parameter.mutable_grad().reset();
  return peak;
}

}  // namespace

int64_t peak_bytes(const std::function<void()>& run) {
  const auto counter = std::make_shared<Counter>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
    run();
  }
  return counter->peak();
}

int64_t gpu_peak_bytes(torch::Device device) {
  return at::getDeviceAllocator(device.type())
      ->getDeviceStats(std::max<int>(device.index(), 0))
      .allocated_bytes[0]
      .peak;
}

void forget_gpu_peak(torch::Device device) {
  at::getDeviceAllocator(device.type())->resetPeakStats(std::max<int>(device.index(), 0));
}

MemoryEstimate estimate_memory(tasks::TrainingTask& task, const TrainConfig& config) {
  MemoryEstimate estimate;
  int64_t trained = 0;
  for (const torch::Tensor& parameter : task.model().parameters()) {
    estimate.parameters += parameter.numel();
    estimate.weights += parameter.nbytes();
    if (parameter.requires_grad()) trained += parameter.nbytes();
  }
  const bool averages = config.schedule.ema_decay > 0;
  estimate.weights += 3 * trained + (averages ? estimate.weights : 0);
  // Batch norms in training want more than one value a channel, so the line starts at two.
  constexpr int64_t kFew = 2, kMore = 4;
  // float16 is as wide as bfloat16, which CPUs know better.
  const std::string precision = config.run.precision == "float32" ? "float32" : "bfloat16";
  const int64_t few = peak_of_examples(task, kFew, precision);
  const int64_t more = peak_of_examples(task, kMore, precision);
  const int64_t slope = std::max<int64_t>(more - few, 0) / (kMore - kFew);
  estimate.activations = std::max<int64_t>(0, few - trained) + slope * (task.batch_size() - kFew);
  return estimate;
}

}  // namespace mala::train
