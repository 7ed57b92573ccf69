// `mala explain`: a page that shows what attention sees from one point of a picture.
#include <cstdio>
#include <memory>

#include "mala/cli/commands.h"
#include "mala/cli/vision_options.h"
#include "mala/core/source.h"
#include "mala/tasks/explain/explain_picture.h"

namespace mala::cli {
namespace {

constexpr const char* kExamples = R"(
Examples:
  mala explain cat.jpg --weights MAViT_T.pth
  mala explain cat.jpg --weights MAViT_T.pth --at 310,180 --out cat
  mala explain cat.jpg --model mavit_s     (no weights: what the formulas do before training)

Writes FOLDER/index.html, which needs nothing but itself, and its pictures as PNG beside it.)";

struct ExplainOptions {
  tasks::ExplainRequest request;
  std::string at;
  bool averaged = false;
  WorkOptions work;
};

// "310,180"
tasks::Pixel parse_pixel(const std::string& text) {
  tasks::Pixel pixel;
  int used = 0;
  const int found = std::sscanf(text.c_str(), "%lf,%lf%n", &pixel.x, &pixel.y, &used);
  if (found != 2 || text[static_cast<size_t>(used)] != '\0') {
    throw UsageError(str("--at got ", in_quotes(text),
                         " and needs two numbers with a comma between them, such as --at 310,180"));
  }
  return pixel;
}

int run_explain(ExplainOptions& options) {
  check_model_name(options.request.model.model);
  if (options.averaged) options.request.model.copy = io::Copy::kAveraged;
  if (!options.at.empty()) options.request.at = parse_pixel(options.at);
  options.request.placement = place(options.work);
  const tasks::Explained explained = explain_picture(options.request);
  if (!explained.is_trained) {
    std::fprintf(stderr, "%s has random weights; give trained ones with --weights\n",
                 explained.model.c_str());
  }
  std::fprintf(stderr, "%zu pictures beside the page\n", explained.pictures.size());
  std::printf("%s\n", explained.page.c_str());
  return 0;
}

}  // namespace

Command add_explain(CLI::App& program) {
  CLI::App* app = program.add_subcommand("explain", "Show what attention sees from one point");
  auto options = std::make_shared<ExplainOptions>();
  tasks::ExplainRequest& request = options->request;
  request.folder = "explained";
  app->add_option("IMAGE", request.picture, "the picture: JPEG, PNG, WebP, PPM or PGM")->required();
  app->add_option("--at", options->at, "the pixel to look from, X,Y (the middle)");
  app->add_option("--weights", request.model.weights, "safetensors or .pth (random weights)");
  app->add_option("--model", request.model.model, "a MAViT of `mala models` (told by the weights)");
  add_mixers_option(*app, request.model.mixers);
  app->add_flag("--ema", options->averaged, "the averaged copy of the weights in a .pth");
  app->add_option("--out", request.folder, "the folder to write to")->capture_default_str();
  add_work_options(*app, options->work);
  app->footer(kExamples);
  return {app, [options] { return run_explain(*options); }};
}

}  // namespace mala::cli
