// `mala predict`: what is in pictures.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "mala/cli/commands.h"
#include "mala/cli/pictures.h"
#include "mala/cli/progress.h"
#include "mala/cli/vision_options.h"

namespace mala::cli {
namespace {

using Predictions = std::vector<tasks::Prediction>;

constexpr int64_t kMostAnswers = 1'000'000;

constexpr const char* kPredictMore = R"(
IMAGE is a picture (JPEG, PNG, WebP, PPM, PGM), a folder, whose pictures are taken at any depth, or a
pattern in quotes. `-` is stdin: one picture, or names of pictures, one a line. A file that cannot be
read is named on stderr; the others are answered all the same, and the program ends with 1.

Examples:
  mala predict cat.jpg --weights MAViT_T.pth --labels imagenet.txt
  mala predict holiday/ --weights flowers.safetensors --top 3
  mala predict 'shots/*.png' --weights flowers.safetensors --json > answers.jsonl
  find . -name '*.jpg' | mala predict - --weights flowers.safetensors --json
  curl -s https://example.org/cat.jpg | mala predict - --weights MAViT_T.pth
  mala predict cat.jpg --weights MAViT_T.pth --dtype bf16 --threads 2)";

struct PredictOptions {
  VisionOptions vision;
  std::vector<std::string> images;
  int64_t top = 5;
  bool json = false;
};

void print_predict_json(const std::string& file, const Predictions& answers,
                        const tasks::Classifier& classifier) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [index, probability] : answers) {
    nlohmann::ordered_json answer{{"index", index}, {"label", nullptr}};
    if (const std::string label = classifier.label(index); !label.empty()) answer["label"] = label;
    answer["probability"] = probability;
    list.push_back(answer);
  }
  const nlohmann::ordered_json line{{"file", file}, {"predictions", list}};
  // Names of files need not be UTF-8.
  const auto replace = nlohmann::ordered_json::error_handler_t::replace;
  std::printf("%s\n", line.dump(-1, ' ', false, replace).c_str());
}

void print_predict_text(const std::string& file, const Predictions& answers,
                        const tasks::Classifier& classifier) {
  std::printf("%s\n", file.c_str());
  for (const auto& [index, probability] : answers) {
    const std::string label = classifier.label(index);
    const std::string name = label.empty() ? str("class ", index) : label;
    std::printf("  %5.1f %%  %s\n", 100 * probability, name.c_str());
  }
}

void print_answers(const data::ImageBatch& batch, const Pictures& pictures,
                   const tasks::Classifier& classifier, const PredictOptions& options) {
  if (batch.count == 0) return;
  const auto answers = tasks::best_of(classifier.probabilities(batch), options.top);
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::string file = pictures.name(batch.indices[i]);
    (options.json ? print_predict_json : print_predict_text)(file, answers[i], classifier);
  }
  std::fflush(stdout);  // whoever waits for answers has these now
}

int run_predict(const PredictOptions& options) {
  const Pictures pictures(options.images);
  for (const std::string& problem : pictures.problems()) {
    std::fprintf(stderr, "mala: %s\n", problem.c_str());
  }
  if (pictures.size() == 0) return kFailed;
  const tasks::Classifier classifier = make_classifier(options.vision);
  data::BatchOptions view = classifier.view(std::min(options.vision.batch, pictures.size()));
  view.workers = options.vision.work.threads;
  data::ImageBatches batches(pictures, view);
  Progress progress("pictures", pictures.size());
  int64_t done = 0, broken = 0;
  while (const auto batch = batches.next()) {
    progress.clear();
    print_answers(*batch, pictures, classifier, options);
    for (const data::BadFile& bad : batch->skipped) {
      std::fprintf(stderr, "mala: %s\n", bad.reason.c_str());
    }
    broken += std::ssize(batch->skipped);
    done += batch->count + std::ssize(batch->skipped);
    progress.show(done);
  }
  return broken > 0 || !pictures.problems().empty() ? kFailed : 0;
}

}  // namespace

Command add_predict(CLI::App& program) {
  CLI::App* app = program.add_subcommand("predict", "Say what is in pictures");
  auto options = std::make_shared<PredictOptions>();
  app->add_option("IMAGE", options->images, "pictures, folders, patterns, or - for stdin")
      ->type_name("")
      ->required();
  app->add_option("--top", options->top, "so many answers for each picture")
      ->type_name("K")
      ->check(within(int64_t{1}, kMostAnswers))
      ->capture_default_str();
  app->add_flag("--json", options->json, "one JSON object a picture, each on a line of its own");
  add_vision_options(*app, options->vision);
  app->footer(kPredictMore);
  return {app, [options] { return run_predict(*options); }};
}

}  // namespace mala::cli
