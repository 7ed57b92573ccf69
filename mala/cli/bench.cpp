// `mala bench`: how fast a model and the operator are on this machine.
#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "mala/cli/commands.h"
#include "mala/cli/vision_options.h"
#include "mala/core/text_table.h"
#include "mala/core/timing.h"
#include "mala/ops/attention.h"

namespace mala::cli {
namespace {

using torch::Tensor;

constexpr const char* kBenchMore = R"(
Times the model's answer to made-up pictures, folded as `mala predict` uses it, and the operator beside
torch's softmax attention (SDPA) at the tokens that MAViT-T's first stage has for such pictures (of 224
pixels where no --size is given), one head of 64. Both take turns; the median counts. Weights do not
change the time, so none are needed. For comparisons with the published code see bench/ in the source
tree.

Examples:
  mala bench
  mala bench --model mavit_s --batch 1,8 --threads 2
  mala bench --model mavit_t --size 512 --dtype bf16 --device cuda --json)";

struct BenchOptions {
  std::string model = "mavit_t", mixers;
  WorkOptions work;
  std::vector<int64_t> batches{1};
  int64_t size = 0;
  TimingLimits timing{.repeats = 100, .seconds = 2};
  bool json = false;
};

struct Row {
  std::string name, shape, impl;
  double ms = 0, pictures = 0;  // pictures: in one call; 0 for the operator
};

std::string shape_text(const Tensor& tensor) {
  std::string text;
  for (const int64_t size : tensor.sizes()) text += str(text.empty() ? "" : ",", size);
  return text;
}

// A GPU answers later than the call returns.
std::function<void()> waiting(std::function<Tensor()> call, const tasks::Placement& placement) {
  const bool is_gpu = placement.device.is_cuda();
  return [call = std::move(call), is_gpu] {
    const c10::InferenceMode inference;
    call();
    if (is_gpu) torch::cuda::synchronize();
  };
}

std::vector<Row> time_model(const BenchOptions& options, const tasks::Placement& placement) {
  const auto loaded =
      models::load_vision({.weights = {}, .model = options.model, .mixers = options.mixers});
  const tasks::Classifier classifier(loaded, placement);
  const int64_t side = options.size > 0 ? options.size : classifier.card().image_size;
  const auto type = torch::dtype(placement.dtype).device(placement.device);
  std::vector<Row> rows;
  for (const int64_t batch : options.batches) {
    const Tensor images =
        torch::randn({batch, 3, side, side}, type).contiguous(torch::MemoryFormat::ChannelsLast);
    const auto call = waiting([&] { return classifier.logits(images); }, placement);
    rows.push_back({options.model, shape_text(images), "mala",
                    time_in_turns({call}, options.timing).front(), static_cast<double>(batch)});
  }
  return rows;
}

// The first stage of MAViT-T, where most tokens are: one head of 64 channels.
std::vector<Row> time_operator(const BenchOptions& options, const tasks::Placement& placement) {
  const int64_t side = (options.size > 0 ? options.size : 224) / 4;
  const auto type = torch::dtype(placement.dtype).device(placement.device);
  const Tensor q = torch::randn({1, 1, side * side, 64}, type), k = torch::randn_like(q),
               v = torch::randn_like(q);
  const auto ours = waiting([&] { return ops::attention(q, k, v); }, placement);
  const auto softmax =
      waiting([&] { return torch::scaled_dot_product_attention(q, k, v); }, placement);
  const std::vector<double> ms = time_in_turns({ours, softmax}, options.timing);
  return {{"attention", shape_text(q), "mala", ms[0]}, {"attention", shape_text(q), "sdpa", ms[1]}};
}

std::string format(const char* pattern, double value) {
  char text[32];
  std::snprintf(text, sizeof(text), pattern, value);
  return text;
}

void print_bench_json(const Row& row, const tasks::Placement& placement) {
  nlohmann::ordered_json line{{"name", row.name},
                              {"pass", "forward"},
                              {"shape", row.shape},
                              {"dtype", c10::toString(placement.dtype)},
                              {"device", placement.device.str()},
                              {"impl", row.impl},
                              {"ms", row.ms}};
  if (row.pictures > 0) line["images_per_second"] = 1e3 * row.pictures / row.ms;
  std::printf("%s\n", line.dump().c_str());
}

int run_bench(const BenchOptions& options) {
  check_model_name(options.model);
  const tasks::Placement placement = place(options.work);
  std::vector<Row> rows = time_model(options, placement);
  for (const Row& row : time_operator(options, placement)) rows.push_back(row);
  std::vector<Line> lines{{.labels = {"what", "shape", "by"}, .figures = {"ms", "pictures/s"}}};
  for (const Row& row : rows) {
    if (options.json) print_bench_json(row, placement);
    Line line{.labels = {row.name, row.shape, row.impl}, .figures = {format("%.3f", row.ms)}};
    if (row.pictures > 0) line.figures.push_back(format("%.1f", 1e3 * row.pictures / row.ms));
    lines.push_back(line);
  }
  if (!options.json) {
    std::printf("%s%s, %d threads\n", align(lines).c_str(), describe(placement).c_str(),
                torch::get_num_threads());
  }
  return 0;
}

}  // namespace

Command add_bench(CLI::App& program) {
  CLI::App* app = program.add_subcommand("bench", "Time a model and the operator on this machine");
  auto options = std::make_shared<BenchOptions>();
  app->add_option("--model", options->model, "one of `mala models`")
      ->type_name("NAME")
      ->capture_default_str();
  add_mixers_option(*app, options->mixers);
  app->add_option("--batch", options->batches, "pictures at once, with commas between")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(within(int64_t{1}, kLargestBatch))
      ->capture_default_str();
  app->add_option("--size", options->size, "pixels on a side (the model's own)")
      ->type_name("N")
      ->check(within(int64_t{4}, kLargestSide));
  app->add_option("--seconds", options->timing.seconds, "no further run of each after so long")
      ->type_name("S")
      ->check(within(0.001, 3600.0))
      ->capture_default_str();
  app->add_flag("--json", options->json, "one JSON object a line");
  add_work_options(*app, options->work);
  app->footer(kBenchMore);
  return {app, [options] { return run_bench(*options); }};
}

}  // namespace mala::cli
