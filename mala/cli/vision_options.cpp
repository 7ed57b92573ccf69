// Options to a classifier.
#include "mala/cli/vision_options.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>

#include "mala/core/source.h"
#include "mala/data/label_file.h"

namespace mala::cli {
namespace {

constexpr int64_t kMostThreads = 1024;

// Empty for words that name a device on some machine.
std::string describe_wrong_device(const std::string& word) {
  if (word == "auto" || word == "cpu" || word.starts_with("cuda")) return {};
  return str(in_quotes(word), " is no device; use auto, cpu, cuda or cuda:1");
}

// Empty for words that some model can be made with.
std::string describe_wrong_mixers(const std::string& words) {
  try {
    models::with_mixers(models::mavit_config("mavit_t"), words);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void say_what(const tasks::Classifier& classifier, const tasks::Placement& placement) {
  const models::Card& card = classifier.card();
  std::fprintf(stderr, "%s (%s), %lld classes, pictures of %lld pixels, %s\n", card.model.c_str(),
               card.mixers.c_str(), static_cast<long long>(classifier.classes()),
               static_cast<long long>(card.image_size), describe(placement).c_str());
}

}  // namespace

void add_work_options(CLI::App& app, WorkOptions& options) {
  app.add_option("--device", options.device, "auto, cpu, cuda or cuda:1")
      ->type_name("NAME")
      ->check(CLI::Validator(describe_wrong_device, "", "device"))
      ->capture_default_str();
  const std::vector<std::string> types{"float32", "bf16", "bfloat16", "float16", "float64", "fp16"};
  app.add_option("--dtype", options.dtype, "float32, bf16, float16 (GPU) or float64")
      ->type_name("TYPE")
      ->check(CLI::IsMember(types).description(""))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "CPU threads (as many as there are cores)")
      ->type_name("N")
      ->check(within(int64_t{1}, kMostThreads));
}

void add_mixers_option(CLI::App& app, std::string& mixers) {
  app.add_option("--mixers", mixers,
                 "mala, softmax, linear or inline for all stages, or four with commas")
      ->type_name("NAMES")
      ->check(CLI::Validator(describe_wrong_mixers, "", "mixers"));
}

void add_vision_options(CLI::App& app, VisionOptions& options) {
  app.add_option("--weights", options.model.weights, "safetensors or a checkpoint of torch.save")
      ->type_name("FILE");
  app.add_option("--model", options.model.model, "one of `mala models` (told by the weights)")
      ->type_name("NAME");
  add_mixers_option(app, options.model.mixers);
  app.add_option("--labels", options.labels, "names of the classes: one a line, or JSON")
      ->type_name("FILE");
  app.add_option("--size", options.image_size, "pixels on a side that the model sees (its own)")
      ->type_name("N")
      ->check(within(int64_t{1}, kLargestSide));
  app.add_option("--batch", options.batch, "pictures at once")
      ->type_name("N")
      ->check(within(int64_t{1}, kLargestBatch))
      ->capture_default_str();
  app.add_flag("--ema", options.averaged, "take the averaged weights of a checkpoint");
  app.add_flag("--quiet", options.quiet, "no talk on stderr but errors and warnings");
  add_work_options(app, options.work);
}

tasks::Placement place(const WorkOptions& options) {
  if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
  return tasks::choose_placement(options.device, options.dtype);
}

void check_model_name(const std::string& name) {
  const std::vector<std::string> names = models::vision_names();
  if (name.empty() || std::ranges::find(names, name) != names.end()) return;
  throw UsageError(models::describe_unknown_model(name));
}

tasks::Classifier make_classifier(const VisionOptions& options) {
  check_model_name(options.model.model);
  if (options.model.weights.empty() && options.model.model.empty()) {
    throw UsageError(
        "give the trained weights with --weights FILE; or try the program with"
        " --model mavit_n, whose weights are random then");
  }
  const tasks::Placement placement = place(options.work);
  models::VisionRequest request = options.model;
  if (options.averaged) request.copy = io::Copy::kAveraged;
  const models::LoadedVision loaded = load_vision(request);
  tasks::Classifier classifier(loaded, placement);
  if (!options.labels.empty()) {
    classifier.set_labels(data::read_labels(options.labels), options.labels);
  }
  if (options.image_size > 0) classifier.set_image_size(options.image_size);
  if (!options.quiet) say_what(classifier, placement);
  if (!loaded.is_trained) {
    std::fprintf(stderr,
                 "warning: no --weights, so these are random and the answers mean nothing\n");
  }
  return classifier;
}

}  // namespace mala::cli
