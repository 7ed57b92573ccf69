// `mala augment`: pictures of what the augmentations of training do.
#include <cstdio>
#include <memory>

#include "mala/cli/commands.h"
#include "mala/core/fields.h"
#include "mala/data/augment/sheet.h"
#include "mala/data/dataset/open.h"
#include "mala/data/image/encode_png.h"

namespace mala::cli {
namespace {

constexpr const char* kAugmentMore = R"(
SET is what training reads: a folder with a folder for each class, a list of pictures and labels, or
tar shards. Each row of the sheet has one picture, first as evaluation sees it and then as training
does; with --each, each row has one augmentation, and the program prints which.

Settings are those of a recipe's [augment], as key=value; `mala augment --settings` lists them.

Examples:
  mala augment flowers/train --out sheet.png
  mala augment flowers/train --out sheet.png rand_augment=m9-mstd0.5-inc1 erase=0.25 mixup=0.8
  mala augment flowers/train --out each.png --each --columns 6 --size 160)";

struct AugmentOptions {
  std::string set, out;
  std::vector<std::string> settings;
  data::SheetOptions sheet;
  bool each = false, list = false;
};

Fields fields_of(data::Augmentation& augmentation) {
  Fields fields;
  visit_fields(augmentation, [&](const char* name, auto& value, const char* help) {
    fields.push_back({name, &value, help});
  });
  return fields;
}

void apply_settings(const std::vector<std::string>& settings, data::Augmentation& augmentation) {
  const Source source{"mala augment", "the command line"};
  const Fields fields = fields_of(augmentation);
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos) {
      throw UsageError(str(in_quotes(setting), " needs the form key=value"));
    }
    const Field& field = find_field(fields, setting.substr(0, equals), source);
    set_from_text(field, std::string_view(setting).substr(equals + 1), source);
  }
}

int list_settings() {
  data::Augmentation augmentation;
  for (const Field& field : fields_of(augmentation)) {
    std::printf("%-16s = %-18s # %s\n", field.name.c_str(), text_of(field.value).c_str(),
                std::string(field.help).c_str());
  }
  return 0;
}

int run_augment(AugmentOptions options) {
  if (options.list) return list_settings();
  if (options.set.empty() || options.out.empty()) {
    throw UsageError(
        "mala augment needs a set of pictures and --out FILE\nTry: mala augment --help");
  }
  apply_settings(options.settings, options.sheet.augmentation);
  const auto source = data::open_images(options.set);
  const data::Sheet sheet =
      (options.each ? data::draw_each : data::draw_sheet)(*source, options.sheet);
  data::write_png(options.out, sheet.image);
  for (size_t i = 0; i < sheet.rows.size(); ++i) {
    std::printf("row %zu: %s\n", i + 1, sheet.rows[i].c_str());
  }
  return 0;
}

}  // namespace

Command add_augment(CLI::App& program) {
  CLI::App* app = program.add_subcommand("augment", "Show what training does to pictures");
  auto options = std::make_shared<AugmentOptions>();
  const auto count = CLI::Range(1, 200);
  app->add_option("SET", options->set, "a folder, a list or shards");
  app->add_option("SETTING", options->settings, "key=value, such as rand_augment=m9-mstd0.5-inc1");
  app->add_option("--out", options->out, "the PNG file to write");
  app->add_flag("--each", options->each, "one augmentation a row");
  app->add_flag("--settings", options->list, "list the settings and what they are without a word");
  app->add_option("--rows", options->sheet.rows, "pictures")->check(count)->capture_default_str();
  app->add_option("--columns", options->sheet.columns, "times that each is shown")
      ->check(count)
      ->capture_default_str();
  app->add_option("--size", options->sheet.image_size, "pixels of a side")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app->add_option("--seed", options->sheet.seed, "of everything random")->capture_default_str();
  app->footer(kAugmentMore);
  return {app, [options] { return run_augment(*options); }};
}

}  // namespace mala::cli
