// `mala train`: a model from a recipe.
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <csignal>
#include <cstdio>
#include <memory>

#include "mala/cli/commands.h"
#include "mala/cli/train_display.h"
#include "mala/core/text_table.h"
#include "mala/tasks/classify_training.h"
#include "mala/train/memory.h"
#include "mala/train/parameters.h"
#include "mala/train/recipe.h"
#include "mala/train/schedule.h"
#include "mala/train/step.h"
#include "mala/train/trainer.h"

namespace mala::cli {
namespace {

constexpr const char* kTrainMore = R"(
RECIPE is a TOML file; every setting in it can be changed by key=value behind it. `--settings` lists
them all with their values, `--dry-run` says what would be done. Checkpoints, metrics.jsonl, curves for
TensorBoard and model.safetensors, which `mala predict` and `mala eval` read, go to run.out. Ctrl-C
saves and ends, `--resume` goes on.

Examples:
  mala train recipes/cifar10_mavit_n.toml data.train=cifar10/train data.evaluate=cifar10/test
  mala train recipes/fine_tune.toml init=models/mavit_n.safetensors data.train=flowers/train epochs=5
  mala train recipes/imagenet_mavit_t.toml --dry-run
  mala train recipes/cifar10_mavit_n.toml --resume
  torchrun --no-python --nproc-per-node 8 mala train recipes/imagenet_mavit_t.toml)";

struct TrainOptions {
  std::string recipe;
  std::vector<std::string> overrides;
  bool resume = false, dry_run = false, settings = false;
};

// All settings of a run: the trainer's and the task's.
struct Settings {
  train::TrainConfig train;
  tasks::ClassifyConfig classify;

  Fields fields() {
    Fields all = fields_of(train);
    for (Field& field : fields_of(classify)) all.push_back(std::move(field));
    return all;
  }
};

void read_settings(const TrainOptions& options, Settings& settings) {
  const std::string task = train::task_of_recipe(options.recipe);
  check(task == "classify", "train", options.recipe, ": there is no task '", task,
        "'; there is classify");
  train::read_recipe(options.recipe, settings.fields());
  train::apply_overrides(options.overrides, settings.fields());
  check_config(settings.train);
}

int print_settings(Settings& settings) {
  std::vector<Line> lines;
  for (const Field& field : settings.fields()) {
    lines.push_back({.labels = {field.name, text_of(field.value)},
                     .figures = {},
                     .note = str("  ", field.help)});
  }
  std::printf("%s", align(lines).c_str());
  return 0;
}

std::string gigabytes(int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f GB", static_cast<double>(bytes) * 1e-9);
  return text;
}

// What would be done, on stdout.
void print_plan(tasks::ClassifyTraining& task, const train::TrainConfig& config,
                const train::Launch& launch, torch::Device device) {
  const int64_t batches = task.batches_per_epoch() / config.optimizer.accumulate;
  const int64_t examples = task.batch_size() * config.optimizer.accumulate * launch.world;
  const train::Schedule schedule(config, batches, examples);
  train::freeze(task.model(), config.optimizer.freeze);
  train::prepare_activations(task, config.optimizer);
  const train::MemoryEstimate memory = estimate_memory(task, config);
  const models::Card& card = task.card();
  const auto number = [](int64_t value) { return static_cast<long long>(value); };
  std::printf("model      %s, mixers %s, %zu classes, pictures of %lld pixels\n",
              card.model.c_str(), card.mixers.empty() ? "none" : card.mixers.c_str(),
              card.labels.size(), number(card.image_size));
  std::printf("parameters %lld\n", number(memory.parameters));
  std::printf("data       %lld pictures, %lld in a step (%lld process%s)\n",
              number(task.pictures()), number(examples), number(launch.world),
              launch.world > 1 ? "es" : "");
  std::printf("steps      %lld, %lld an epoch\n", number(schedule.steps()), number(batches));
  std::printf("lr         up to %.3g, %s on %s\n", schedule.highest_lr(),
              config.run.precision.c_str(), device.str().c_str());
  std::printf("memory     about %s a process: %s weights and optimiser, %s activations\n",
              gigabytes(memory.total()).c_str(), gigabytes(memory.weights).c_str(),
              gigabytes(memory.activations).c_str());
  std::printf("out        %s\n", config.run.out.c_str());
}

// Fast kernels for shapes that stay the same, chosen once.
void set_up_torch(const train::RunConfig& config, torch::Device device) {
  if (config.threads > 0) at::set_num_threads(static_cast<int>(config.threads));
  if (device.is_cuda()) at::globalContext().setBenchmarkCuDNN(true);
}

int finish(const train::Outcome& outcome) {
  if (outcome.is_done) {
    std::printf("%s\n", outcome.model_file.c_str());
    return 0;
  }
  std::fprintf(stderr, "mala: saved at step %lld; --resume goes on\n",
               static_cast<long long>(outcome.step));
  constexpr int kBySignal = 128;  // as shells count them
  return kBySignal + stop_signal();
}

int run_train(const TrainOptions& options) {
  Settings settings;
  read_settings(options, settings);
  if (options.settings) return print_settings(settings);
  const train::TrainConfig& config = settings.train;
  const train::Launch launch = train::launch_of_environment();
  const torch::Device device = train::choose_device(config.run.device, launch);
  set_up_torch(config.run, device);
  tasks::ClassifyTraining task(settings.classify, config.run.seed, launch.shard());
  if (options.dry_run) {
    if (launch.rank == 0) print_plan(task, config, launch, device);
    return 0;
  }
  watch_for_stop();
  train::Group group(launch, device);
  TrainDisplay display(launch.rank == 0);
  const std::string recipe = train::write_recipe("classify", settings.fields());
  const train::Outcome outcome =
      train::train({task, config, group, device, recipe}, display, options.resume);
  return launch.rank == 0 ? finish(outcome) : 0;
}

}  // namespace

Command add_train(CLI::App& program) {
  const auto options = std::make_shared<TrainOptions>();
  CLI::App* app = program.add_subcommand("train", "Train a model from a recipe.");
  app->add_option("RECIPE", options->recipe, "a TOML file")->required();
  app->add_option("KEY=VALUE", options->overrides, "settings that differ from the recipe");
  app->add_flag("--resume", options->resume, "go on from the newest checkpoint in run.out");
  app->add_flag("--dry-run", options->dry_run, "say what would be done");
  app->add_flag("--settings", options->settings, "list all settings with their values");
  app->footer(kTrainMore);
  return {app, [options] { return run_train(*options); }};
}

}  // namespace mala::cli
