// `mala convert`: weights from any file that is read here to safetensors.
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include "mala/cli/commands.h"
#include "mala/core/source.h"
#include "mala/data/label_file.h"
#include "mala/io/cast.h"
#include "mala/io/read_weights.h"
#include "mala/models/card.h"
#include "mala/models/vision/recognise.h"

namespace mala::cli {
namespace {

constexpr const char* kConvertMore = R"(
IN is a checkpoint of torch.save or a safetensors file; nothing in it is executed. What it holds besides
weights, such as the optimiser's state, is left out. OUT says which model it is for where that can be
told, and what IN's metadata said. It is written beside its place and renamed, so that there is never half
of one.

Examples:
  mala convert MAViT_T.pth mavit_t.safetensors
  mala convert MAViT_T.pth mavit_t.safetensors --dtype bf16 --labels imagenet.txt
  mala convert checkpoint.pth averaged.safetensors --ema)";

struct ConvertOptions {
  std::string in, out, dtype, labels;
  bool averaged = false, force = false;
};

const std::map<std::string, io::ElementType> kTypes{
    {"float32", io::ElementType::kFloat32},   {"bf16", io::ElementType::kBFloat16},
    {"bfloat16", io::ElementType::kBFloat16}, {"float16", io::ElementType::kFloat16},
    {"fp16", io::ElementType::kFloat16},      {"float64", io::ElementType::kFloat64}};

bool is_vision(const io::Weights& weights) {
  return weights.find("patch_embed.proj.0.weight") || weights.find("patch_embed.proj.weight");
}

// What the weights are for, beside what the file said already.
models::Metadata describe(const io::Weights& weights, const ConvertOptions& options) {
  models::Metadata metadata = weights.metadata;
  metadata.try_emplace("format", "pt");  // which torch's own readers look for
  const Source source{"convert", options.in};
  models::Card card = models::read_card(metadata, source);
  if (!options.labels.empty()) {
    card.labels = data::read_labels(options.labels);
    const int64_t classes = models::count_classes(weights);
    source.check(std::ssize(card.labels) == classes, "has a head for ", classes, " classes, ",
                 options.labels, " has ", card.labels.size(), " labels");
  }
  if (is_vision(weights) && card.model.empty()) {
    const models::VisionConfig config = models::recognise(weights, options.in);
    card.model = name_of(config);
    if (card.image_size == 0) card.image_size = image_size_of(config);
  }
  if (card == models::Card{}) return metadata;
  for (const auto& [key, value] : metadata_of(card)) metadata[key] = value;
  return metadata;
}

void check_target(const ConvertOptions& options) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::file_status status = fs::status(options.out, ignored);
  if (!fs::exists(status)) return;
  check(fs::is_regular_file(status), "convert", options.out,
        " is a folder or a device; name a file in a folder of yours");
  check(options.force, "convert", options.out,
        " is there already; choose another name, or replace it with --force");
}

int run_convert(const ConvertOptions& options) {
  check_target(options);
  const auto copy = options.averaged ? io::Copy::kAveraged : io::Copy::kTrained;
  io::Weights weights = io::read_weights(options.in, copy);
  const models::Metadata metadata = describe(weights, options);
  if (!options.dtype.empty()) {
    const Source source{"convert", options.in};
    weights = io::cast_floats(std::move(weights), kTypes.at(options.dtype), source);
  }
  io::write_safetensors(options.out, weights.arrays, metadata);
  const auto model = metadata.find("mala.model");
  std::fprintf(stderr, "%zu arrays%s%s to %s\n", weights.arrays.size(),
               model == metadata.end() ? "" : " of ",
               model == metadata.end() ? "" : model->second.c_str(), options.out.c_str());
  if (!weights.skipped.empty()) {
    std::fprintf(stderr, "left out: %zu entries that are no weights, the first %s\n",
                 weights.skipped.size(), in_quotes(weights.skipped.front()).c_str());
  }
  return 0;
}

}  // namespace

Command add_convert(CLI::App& program) {
  CLI::App* app = program.add_subcommand("convert", "Turn a checkpoint into safetensors");
  auto options = std::make_shared<ConvertOptions>();
  app->add_option("IN", options->in, "a checkpoint of torch.save, or safetensors")
      ->type_name("")
      ->required();
  app->add_option("OUT", options->out, "the safetensors file to write")->type_name("")->required();
  app->add_option("--dtype", options->dtype, "float32, bf16, float16 or float64 (as in IN)")
      ->type_name("TYPE")
      ->check(CLI::IsMember(std::vector<std::string>{"float32", "bf16", "bfloat16", "float16",
                                                     "fp16", "float64"})
                  .description(""));
  app->add_option("--labels", options->labels, "names of the classes to put into OUT")
      ->type_name("FILE");
  app->add_flag("--ema", options->averaged, "take the averaged weights of a checkpoint");
  app->add_flag("--force", options->force, "replace OUT where it is there already");
  app->footer(kConvertMore);
  return {app, [options] { return run_convert(*options); }};
}

}  // namespace mala::cli
