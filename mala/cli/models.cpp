// `mala models`: which models there are, and how large.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "mala/cli/commands.h"
#include "mala/core/text_table.h"
#include "mala/models/vision/catalogue.h"
#include "mala/models/vision/macs.h"
#include "mala/models/vision/size.h"

namespace mala::cli {
namespace {

struct Facts {
  std::string name, mixers;
  int64_t parameters, macs, image_size, classes;
};

Facts facts_of(const models::VisionConfig& config) {
  return {.name = name_of(config),
          .mixers = mixers_of(config),
          .parameters = std::visit([](const auto& c) { return count_parameters(c); }, config),
          .macs = std::visit(
              [](const auto& c) {
                return count_macs(c, {224, 224});
              },
              config),
          .image_size = image_size_of(config),
          .classes = classes_of(config)};
}

nlohmann::ordered_json json_of(const Facts& facts) {
  return {{"name", facts.name},     {"parameters", facts.parameters}, {"macs_224", facts.macs},
          {"mixers", facts.mixers}, {"image_size", facts.image_size}, {"classes", facts.classes}};
}

// 16,449,128
std::string with_commas(int64_t number) {
  std::string text = std::to_string(number);
  for (auto i = static_cast<int64_t>(text.size()) - 3; i > 0; i -= 3) {
    text.insert(static_cast<size_t>(i), ",");
  }
  return text;
}

std::string billions(int64_t number) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f G", static_cast<double>(number) / 1e9);
  return text;
}

Line models_line_of(const Facts& facts) {
  return {.labels = {facts.name, facts.mixers},
          .figures = {with_commas(facts.parameters), billions(facts.macs),
                      std::to_string(facts.image_size), std::to_string(facts.classes)}};
}

int run_models(bool as_json) {
  std::vector<Line> lines{{.labels = {"name", "mixers"},
                           .figures = {"parameters", "MACs at 224²", "made for", "classes"}}};
  for (const std::string& name : models::vision_names()) {
    const Facts facts = facts_of(models::vision_config(name));
    lines.push_back(models_line_of(facts));
    if (as_json) std::printf("%s\n", json_of(facts).dump().c_str());
  }
  if (!as_json) std::fputs(align(lines).c_str(), stdout);
  return 0;
}

}  // namespace

Command add_models(CLI::App& program) {
  CLI::App* app = program.add_subcommand("models", "List the models, their sizes and mixers");
  auto as_json = std::make_shared<bool>(false);
  app->add_flag("--json", *as_json, "One JSON object a line");
  app->footer(R"(
Parameters are for as many classes as the model comes with; MACs are multiply-adds of one picture
of 224 by 224 pixels; "made for" is the side of the pictures that the model sees unless told otherwise.

Examples:
  mala models
  mala models --json | jq -r 'select(.parameters < 2e7) | .name')");
  return {app, [as_json] { return run_models(*as_json); }};
}

}  // namespace mala::cli
