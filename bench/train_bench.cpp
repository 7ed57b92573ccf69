// Times a step of training MAViT beside its published block structure in eager torch: same weights,
// same loss, same optimiser.
#include <torch/torch.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/model_bench_published.h"
#include "bench/support/bystanders.h"
#include "bench/support/columns.h"
#include "bench/support/contenders.h"
#include "bench/support/flags.h"
#include "bench/support/report.h"
#include "mala/core/text_table.h"
#include "mala/core/timing.h"
#include "mala/train/adamw.h"
#include "mala/train/memory.h"
#include "mala/train/precision.h"

namespace mala::bench {
namespace {

using torch::Tensor;

constexpr const char* kHelp =
    R"(train_bench: times a step of training MAViT beside its published block structure.

Losses and gradients of both are compared first, in float32; one that is wrong gets no time and the
program ends with status 1. A step is forward, backward and AdamW.

  --model NAME      mavit_n, mavit_t, mavit_s, mavit_b or mavit_l (mavit_n)
  --batch N         pictures (32)
  --size N          pixels on a side (32)
  --precision TYPE  float32, bfloat16 or float16, by autocast (float32)
  --device NAME     cpu or cuda (cpu)
  --repeats N       at most so many steps of each (30)
  --seconds N       no further step of each after so long, from the third on (10)
  --threads N       of torch on the CPU (its own choice)
  --json FILE       the rows as a JSON list
)";

constexpr const char *kOurs = "mala", *kPublished = "published";

struct Options {
  std::string model = "mavit_n", precision = "float32", device = "cpu", json;
  int64_t batch = 32, size = 32, threads = 0;
  TimingLimits timing{.repeats = 30, .seconds = 10};
  bool help = false;
};

Options parse(int argc, char** argv) {
  constexpr const char* kWhere = "train_bench";
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--help" || flag == "-h") {
      o.help = true;
      continue;
    }
    check(i + 1 < argc, kWhere, flag, " needs a value; try --help");
    const std::string value = argv[++i];
    const auto count = [&] { return positive_number<int64_t>(kWhere, flag, value); };
    if (flag == "--model")
      o.model = value;
    else if (flag == "--batch")
      o.batch = count();
    else if (flag == "--size")
      o.size = count();
    else if (flag == "--precision")
      o.precision = value;
    else if (flag == "--device")
      o.device = value;
    else if (flag == "--repeats")
      o.timing.repeats = count();
    else if (flag == "--seconds")
      o.timing.seconds = positive_number<double>(kWhere, flag, value);
    else if (flag == "--threads")
      o.threads = count();
    else if (flag == "--json")
      o.json = value;
    else
      check(false, kWhere, "unknown argument '", flag, "'; try --help");
  }
  check(o.precision == "float32" || o.precision == "bfloat16" || o.precision == "float16", kWhere,
        "--precision got '", o.precision, "' and knows float32, bfloat16 and float16");
  check(o.device == "cpu" || o.device == "cuda", kWhere, "--device got '", o.device,
        "' and knows cpu and cuda");
  check(o.device == "cpu" || torch::cuda::is_available(), kWhere, "there is no GPU to use here");
  return o;
}

// One way to reckon the model, with weights and an optimiser of its own.
class Contender {
 public:
  Contender(std::string impl, const Options& o) : name(std::move(impl)), device_(o.device) {
    torch::manual_seed(1);
    models::MavitConfig config = models::mavit_config(o.model);
    config.drop_path = 0;  // both draw nothing, so they can be compared
    model_ = models::Mavit(config);
    model_->to(device_);
    model_->train();
    published_ = std::make_unique<PublishedMavit>(model_);
    images_ = torch::randn({o.batch, o.size, o.size, 3}).permute({0, 3, 1, 2}).to(device_);
    labels_ = torch::randint(config.classes, {o.batch}, torch::kInt64).to(device_);
    std::vector<train::ParameterGroup> groups(1);
    for (const auto& item : model_->named_parameters()) {
      groups[0].names.push_back(item.key());
      groups[0].parameters.push_back(item.value());
    }
    optimizer_ = std::make_unique<train::AdamW>(groups, train::OptimizerConfig{}, device_);
  }

  Tensor loss(const std::string& precision) {
    const train::Autocast autocast(device_, precision);
    // The published code is channels first.
    const Tensor logits =
        name == kOurs ? model_->forward(images_) : published_->run(images_.contiguous());
    return torch::cross_entropy_loss(logits.to(torch::kFloat32), labels_);
  }

  void step(const std::string& precision) {
    optimizer_->clear_gradients();
    loss(precision).backward();
    optimizer_->step(1e-4, torch::zeros({}, device_));
  }

  std::vector<Tensor> gradients() {
    optimizer_->clear_gradients();
    loss("float32").backward();
    return optimizer_->gradients();
  }

  void synchronize() const {
    if (device_.is_cuda()) torch::cuda::synchronize();
  }

  std::string name;

 private:
  torch::Device device_;
  models::Mavit model_ = nullptr;
  std::unique_ptr<PublishedMavit> published_;
  std::unique_ptr<train::AdamW> optimizer_;
  Tensor images_, labels_;
};

// cuDNN multiplies float32 with ten bits of mantissa unless it is told not to.
class AllDigits {
 public:
  AllDigits() { at::globalContext().setAllowTF32CuDNN(false); }
  ~AllDigits() { at::globalContext().setAllowTF32CuDNN(before_); }
  AllDigits(const AllDigits&) = delete;
  AllDigits& operator=(const AllDigits&) = delete;

 private:
  bool before_ = at::globalContext().allowTF32CuDNN();
};

// The largest difference of any gradient beside the largest gradient of its kind.
double difference(Contender& a, Contender& b) {
  const AllDigits all_digits;
  const std::vector<Tensor> first = a.gradients(), second = b.gradients();
  double most = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    const double size = second[i].abs().max().item<double>();
    const double off = (first[i] - second[i]).abs().max().item<double>();
    if (size > 1e-6) most = std::max(most, off / size);
  }
  return most;
}

// Of a step with nobody else's weights beside it.
int64_t peak_memory(const std::string& name, const Options& o) {
  Contender contender(name, o);
  contender.step(o.precision);  // what libraries keep from their first step on is theirs
  if (o.device == "cpu") return train::peak_bytes([&] { contender.step(o.precision); });
  contender.synchronize();
  train::forget_gpu_peak(torch::kCUDA);
  contender.step(o.precision);
  contender.synchronize();
  return train::gpu_peak_bytes(torch::kCUDA);
}

struct StepRow {
  std::string impl;
  double ms = 0, images_per_second = 0;
  int64_t peak = 0;
};

struct Timed {
  double error = 0;        // of gradients
  std::vector<double> ms;  // none where they differ
};

Timed time_both(const Options& o) {
  constexpr double kTolerance = 2e-3;  // rounding of float32 through all layers and batch norms
  Contender ours(kOurs, o), published(kPublished, o);
  Timed timed{.error = difference(ours, published), .ms = {}};
  if (timed.error > kTolerance) return timed;
  std::vector<std::function<void()>> calls;
  for (Contender* contender : {&ours, &published}) {
    calls.push_back([contender, &o] {
      contender->step(o.precision);
      contender->synchronize();
    });
  }
  timed.ms = time_in_turns(calls, o.timing);
  return timed;
}

std::vector<StepRow> rows_of(const Timed& timed, const Options& o) {
  std::vector<StepRow> rows;
  for (const char* name : {kOurs, kPublished}) {
    const double ms = timed.ms[rows.size()];
    rows.push_back({name, ms, 1000 * static_cast<double>(o.batch) / ms, peak_memory(name, o)});
  }
  return rows;
}

void print(const std::vector<StepRow>& rows, const Options& o, double error) {
  std::vector<Line> lines{{.labels = {"model", "B,size", "precision", "impl"},
                           .figures = {"ms", "images/s", "peak MB", "speed", "memory"}}};
  const StepRow& other = rows.back();
  for (const StepRow& row : rows) {
    lines.push_back({.labels = {o.model, str(o.batch, ",", o.size), o.precision, row.impl},
                     .figures = {format("%.2f", row.ms), format("%.1f", row.images_per_second),
                                 format("%.1f", static_cast<double>(row.peak) * 1e-6),
                                 format("%.2fx", other.ms / row.ms),
                                 format("%.2fx", static_cast<double>(row.peak) /
                                                     static_cast<double>(other.peak))}});
  }
  std::printf("%s\non %s; gradients in float32 agree to %.1e\n", align(lines).c_str(),
              o.device.c_str(), error);
}

int run(const Options& o) {
  if (o.help) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  set_threads(o.threads);
  const Bystanders bystanders;
  const Timed timed = time_both(o);
  if (timed.ms.empty()) {
    std::printf("WRONG: gradients differ by %.1e, nothing is timed\n", timed.error);
    return 1;
  }
  const std::vector<StepRow> rows = rows_of(timed, o);
  print(rows, o, timed.error);
  bystanders.warn();
  if (o.json.empty()) return 0;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const StepRow& row : rows) {
    list.push_back({{"name", o.model},
                    {"pass", "training step"},
                    {"shape", str(o.batch, ",3,", o.size, ",", o.size)},
                    {"dtype", o.precision},
                    {"device", o.device},
                    {"impl", row.impl},
                    {"ms", row.ms},
                    {"images_per_second", row.images_per_second},
                    {"peak_bytes", row.peak}});
  }
  write_file(o.json, list.dump(2) + "\n");
  return 0;
}

}  // namespace
}  // namespace mala::bench

int main(int argc, char** argv) try {
  return mala::bench::run(mala::bench::parse(argc, argv));
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
