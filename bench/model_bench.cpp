// Times MAViT beside its published block structure in eager torch, with the same weights.
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/model_bench_options.h"
#include "bench/model_bench_published.h"
#include "bench/support/bystanders.h"
#include "bench/support/case.h"
#include "bench/support/columns.h"
#include "bench/support/contenders.h"
#include "bench/support/on_gpu.h"
#include "bench/support/report.h"
#include "bench/support/roof.h"
#include "bench/support/tensors.h"
#include "mala/core/error.h"
#include "mala/core/text_table.h"
#include "mala/models/layout.h"
#include "mala/models/vision/macs.h"
#include "mala/models/vision/mavit_inference.h"

namespace mala::bench {

namespace {

using at::Tensor;

struct ModelRow {
  std::string model, shape, impl;
  DType dtype = DType::kFloat32;
  double ms = 0, limit_ms = 0, error = 0;
  bool is_right = true;
};

struct ModelCase {
  models::MavitConfig config;
  int64_t batch = 1, height = 224, width = 224;
  DType dtype = DType::kFloat32;
  bool on_gpu = false;

  at::Device device() const { return on_gpu ? at::kCUDA : at::kCPU; }
};

bool was_published(const models::MavitConfig& config) {
  return std::all_of(config.stages.begin(), config.stages.end(), [](const auto& stage) {
    return stage.mixer == nn::Mixer::kMala || stage.mixer == nn::Mixer::kSoftmax;
  });
}

// Scales, statistics and biases that are neither 0 nor 1, so that a step left out would show.
models::Mavit make_model(const models::MavitConfig& config) {
  at::manual_seed(1);
  models::Mavit model(config);
  const at::NoGradGuard no_gradients;
  for (Tensor& parameter : model->parameters()) {
    parameter.add_(0.02 * at::randn_like(parameter));
  }
  for (auto& item : model->named_parameters()) {
    if (item.key().find("gamma") != std::string::npos) item.value().normal_(1, 0.1);
  }
  for (auto& item : model->named_buffers()) {
    if (item.key().ends_with("running_var")) item.value().uniform_(0.5, 2);
  }
  model->eval();
  return model;
}

struct Implementation {
  std::string name;
  std::function<Tensor()> run;
};

std::vector<Implementation> implementations(const ModelCase& c) {
  models::Mavit model = make_model(c.config);
  model->to(c.device(), scalar_type(c.dtype));
  Tensor images = at::randn({c.batch, 3, c.height, c.width}).to(c.device(), scalar_type(c.dtype));
  auto ours = std::make_shared<models::MavitInference>(*model);
  const auto run_ours = [=] { return ours->forward(images); };
  std::vector<Implementation> all{
      {"mala", c.on_gpu ? captured(run_ours) : std::function<Tensor()>(run_ours)}};
  if (was_published(c.config)) {
    if (c.on_gpu) {  // what makes eager torch fastest there
      models::lay_channels_last(*model);
      images = images.contiguous(at::MemoryFormat::ChannelsLast);
    }
    auto published = std::make_shared<PublishedMavit>(model);
    all.push_back({"published", [=] { return published->forward(images); }});
  }
  return all;
}

// The first and the last picture stand for all: float64 on the CPU takes its time.
Tensor of_both_ends(const Tensor& batch) {
  return batch.size(0) > 2 ? at::stack({batch[0], batch[-1]}) : batch;
}

// The model as it is trained, in float64: whom all others have to agree with.
Tensor expected_logits(const ModelCase& c) {
  models::Mavit model = make_model(c.config);
  const Tensor images = of_both_ends(at::randn({c.batch, 3, c.height, c.width}));
  model->to(at::kDouble);
  const at::NoGradGuard no_gradients;
  // Weights and pictures as the narrow type has them.
  for (Tensor& parameter : model->parameters()) {
    parameter.copy_(parameter.to(scalar_type(c.dtype)));
  }
  return model->forward(images.to(scalar_type(c.dtype)).to(at::kDouble));
}

double error_of(const Tensor& logits, const Tensor& expected) {
  const Tensor found = of_both_ends(logits.to(at::kCPU, at::kDouble));
  const Tensor difference = (found - expected).abs().max();
  return (difference / expected.abs().max()).item<double>();
}

double tolerance(DType dtype) { return dtype == DType::kFloat32 ? 1e-4 : 0.1; }

double limit_ms(const ModelCase& c, const Roof& roof) {
  const auto macs = static_cast<double>(count_macs(c.config, {c.height, c.width}));
  return 2 * macs * static_cast<double>(c.batch) / (roof.fma_gflops * 1e6);
}

std::vector<ModelRow> measure(const ModelCase& c, const Roof& roof, const TimingLimits& limits) {
  const Tensor expected = expected_logits(c);
  std::vector<ModelRow> rows;
  std::vector<std::function<void()>> calls;
  const std::vector<Implementation> all = implementations(c);
  for (const Implementation& implementation : all) {
    ModelRow row{.model = c.config.name,
                 .shape = str(c.batch, ",3,", c.height, ",", c.width),
                 .impl = implementation.name,
                 .dtype = c.dtype,
                 .limit_ms = limit_ms(c, roof),
                 .error = error_of(implementation.run(), expected)};
    row.is_right = row.error <= tolerance(c.dtype);
    rows.push_back(row);
    if (!row.is_right) continue;
    calls.push_back([run = implementation.run, on_gpu = c.on_gpu] {
      run();
      if (on_gpu) wait_for_gpu();
    });
  }
  const std::vector<double> ms = time_in_turns(calls, limits);
  // What was timed is right still: a graph may outlive what it reads.
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].is_right) continue;
    rows[i].error = std::max(rows[i].error, error_of(all[i].run(), expected));
  }
  size_t next = 0;
  for (ModelRow& row : rows) {
    row.ms = row.is_right ? ms[next++] : 0;
    row.is_right = row.is_right && row.error <= tolerance(c.dtype);
  }
  return rows;
}

// `other` is the time of the last implementation of the same case.
Line line_of(const ModelRow& row, double other) {
  Line line{.labels = {row.model, row.shape, name(row.dtype), row.impl}, .figures = {}};
  if (!row.is_right) {
    line.note = "  WRONG: off by " + format("%.1e", row.error) + ", not timed";
    return line;
  }
  line.figures = {format("%.2f", row.ms), format("%.2f", row.ms / other),
                  format("%.0f %%", 100 * row.limit_ms / row.ms), format("%.1e", row.error)};
  return line;
}

nlohmann::ordered_json json_of(const ModelRow& row, const std::string& device) {
  return {
      {"name", row.model}, {"pass", "forward"}, {"shape", row.shape}, {"dtype", name(row.dtype)},
      {"device", device},  {"impl", row.impl},  {"ms", row.ms},       {"limit_ms", row.limit_ms}};
}

std::vector<ModelCase> plan(const ModelOptions& options) {
  std::vector<ModelCase> cases;
  for (const std::string& name : options.models) {
    models::MavitConfig config = models::mavit_config(name);
    if (!options.mixers.empty()) config = with_mixers(config, options.mixers);
    for (const DType dtype : options.dtypes) {
      for (const int64_t batch : options.batches) {
        cases.push_back({.config = config,
                         .batch = batch,
                         .height = options.height,
                         .width = options.width,
                         .dtype = dtype,
                         .on_gpu = options.device == "cuda"});
      }
    }
  }
  if (!options.json.empty()) check_can_write(options.json);
  return cases;
}

// How fast the device multiplies and adds: in float32 on the CPU, in the model's type on a GPU.
Roof measure_roof(const ModelCase& c) {
  return {.fma_gflops = c.on_gpu ? measure_gpu_gflops(scalar_type(c.dtype)) : measure_fma_gflops()};
}

int run(const ModelOptions& options) {
  if (options.help) {
    std::fputs(model_help_text().data(), stdout);
    return 0;
  }
  check(options.device == "cpu" || torch::cuda::is_available(), "model_bench",
        "there is no GPU to use here; leave --device out");
  const std::vector<ModelCase> cases = plan(options);
  const int64_t threads = set_threads(options.threads);
  const Bystanders bystanders;
  Roof roof;
  std::vector<Line> lines{{.labels = {"model", "B,C,H,W", "type", "impl"},
                           .figures = {"ms", "ratio", "of peak", "error"}}};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  bool all_right = true;
  for (const ModelCase& c : cases) {
    if (roof.fma_gflops == 0 || c.on_gpu) roof = measure_roof(c);
    const std::vector<ModelRow> rows = measure(c, roof, options.timing);
    if (c.on_gpu) {
      std::printf("%s: the GPU multiplies matrices at %.0f GFLOP/s\n", name(c.dtype).data(),
                  roof.fma_gflops);
    }
    for (const ModelRow& row : rows) {
      lines.push_back(line_of(row, rows.back().is_right ? rows.back().ms : row.ms));
      all_right = all_right && row.is_right;
      if (row.is_right) list.push_back(json_of(row, options.device));
    }
  }
  std::printf("%s\n", align(lines).c_str());
  if (options.device == "cpu") {
    std::printf("%lld threads, %.0f GFLOP/s in float32\n", static_cast<long long>(threads),
                roof.fma_gflops);
  }
  bystanders.warn();
  if (!options.json.empty()) write_file(options.json, list.dump(2) + "\n");
  return all_right ? 0 : 1;
}

}  // namespace

}  // namespace mala::bench

int main(int argc, char** argv) try {
  return mala::bench::run(mala::bench::parse_model_options(argc, argv));
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
