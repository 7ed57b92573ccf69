// `mala eval`: how often a model is right on labelled pictures.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "mala/cli/commands.h"
#include "mala/cli/progress.h"
#include "mala/cli/vision_options.h"
#include "mala/core/text_table.h"
#include "mala/data/image/encode_png.h"
#include "mala/tasks/evaluate.h"

namespace mala::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kNoPicture = "none";

constexpr const char* kEvalMore = R"(
FOLDER has a folder for each class, FOLDER/CLASS/*.jpg. The folders are called as the model's labels
are; where none is, they stand for the classes in the order of their names. A list (a path and a label
on each line) or tar shards will do too.

The picture of the confusion has a row for each class and a column for each answer, darker for a greater
share: right answers green, wrong ones red. `--confusion none` leaves it out.

Examples:
  mala eval --data imagenet/val --weights MAViT_T.pth
  mala eval --data flowers/test --weights flowers.safetensors --confusion flowers.png
  mala eval --data flowers/test --weights flowers.safetensors --json > flowers.json)";

struct EvalOptions {
  VisionOptions vision;
  std::string data, confusion = "confusion.png";
  bool json = false;
};

double share(int64_t part, int64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

std::string percent(int64_t part, int64_t all) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f %%", 100 * share(part, all));
  return text;
}

std::string name_of(int64_t index, const std::vector<std::string>& names) {
  return names[static_cast<size_t>(index)];
}

Line eval_line_of(int64_t label, const tasks::Confusion& confusion,
                  const std::vector<std::string>& names) {
  const int64_t all = confusion.count(label), other = confusion.mistaken_for(label);
  Line line{.labels = {name_of(label, names)},
            .figures = {std::to_string(all), percent(confusion.count(label, label), all)}};
  if (all == 0) line.figures.back() = "-";
  if (other >= 0) {
    line.figures.push_back(percent(confusion.count(label, other), all));
    line.note = "  " + name_of(other, names);
  }
  return line;
}

void print_eval_text(const tasks::Evaluation& result, const std::vector<std::string>& names) {
  std::vector<Line> lines{
      {.labels = {"class"}, .figures = {"pictures", "top-1", "mistaken"}, .note = "  for"}};
  for (int64_t label = 0; label < result.confusion.classes(); ++label) {
    lines.push_back(eval_line_of(label, result.confusion, names));
  }
  std::printf("%s\ntop-1 %s, top-5 %s, of %lld pictures; %.1f pictures/s\n", align(lines).c_str(),
              percent(result.top1, result.pictures).c_str(),
              percent(result.top5, result.pictures).c_str(),
              static_cast<long long>(result.pictures),
              static_cast<double>(result.pictures) / result.seconds);
}

ordered_json json_of(const tasks::Evaluation& result, const std::vector<std::string>& names) {
  ordered_json classes = ordered_json::array(), rows = ordered_json::array();
  const tasks::Confusion& confusion = result.confusion;
  for (int64_t label = 0; label < confusion.classes(); ++label) {
    const int64_t all = confusion.count(label);
    classes.push_back({{"index", label},
                       {"label", name_of(label, names)},
                       {"pictures", all},
                       {"top1", share(confusion.count(label, label), all)}});
    std::vector<int64_t> row;
    for (int64_t answer = 0; answer < confusion.classes(); ++answer) {
      row.push_back(confusion.count(label, answer));
    }
    rows.push_back(row);
  }
  return {{"pictures", result.pictures},
          {"skipped", result.skipped.size()},
          {"top1", share(result.top1, result.pictures)},
          {"top5", share(result.top5, result.pictures)},
          {"images_per_second", static_cast<double>(result.pictures) / result.seconds},
          {"classes", classes},
          {"confusion", rows}};
}

tasks::Evaluation evaluate_with_progress(const EvalOptions& options,
                                         const tasks::Classifier& classifier,
                                         const data::ImageSource& source) {
  data::BatchOptions view = classifier.view(std::min(options.vision.batch, source.size()));
  view.workers = options.vision.work.threads;
  Progress progress("pictures", source.size());
  return tasks::evaluate(classifier, source, view, [&](int64_t done) { progress.show(done); });
}

int run_eval(const EvalOptions& options) {
  const tasks::Classifier classifier = make_classifier(options.vision);
  const auto source = tasks::open_labelled(options.data, classifier);
  const tasks::Evaluation result = evaluate_with_progress(options, classifier, *source);
  for (const data::BadFile& bad : result.skipped) {
    std::fprintf(stderr, "mala: %s\n", bad.reason.c_str());
  }
  check(result.pictures > 0, "eval", options.data, ": no picture could be read");
  if (options.json) {
    const auto replace = ordered_json::error_handler_t::replace;
    std::printf("%s\n", json_of(result, source->classes()).dump(-1, ' ', false, replace).c_str());
  } else {
    print_eval_text(result, source->classes());
  }
  if (options.confusion != kNoPicture) {
    data::write_png(options.confusion, picture_of(result.confusion));
    if (!options.vision.quiet) {
      std::fprintf(stderr, "the confusion is shown in %s\n", options.confusion.c_str());
    }
  }
  return result.skipped.empty() ? 0 : kFailed;
}

}  // namespace

Command add_eval(CLI::App& program) {
  CLI::App* app = program.add_subcommand("eval", "Measure how often a model is right");
  auto options = std::make_shared<EvalOptions>();
  app->add_option("--data", options->data, "FOLDER/CLASS/*.jpg, a list, or tar shards")
      ->type_name("FOLDER")
      ->required();
  app->add_option("--confusion", options->confusion, "the PNG to write, or none")
      ->type_name("FILE")
      ->capture_default_str();
  app->add_flag("--json", options->json, "the figures as one JSON object");
  add_vision_options(*app, options->vision);
  app->footer(kEvalMore);
  return {app, [options] { return run_eval(*options); }};
}

}  // namespace mala::cli
