// How close the maps of trained models are to softmax's, over many pictures: from the same queries
// and keys, and between models that were trained apart.
#include <torch/torch.h>

#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>

#include "bench/support/columns.h"
#include "bench/support/flags.h"
#include "mala/core/text_table.h"
#include "mala/data/batches.h"
#include "mala/data/dataset/open.h"
#include "mala/data/dataset/renumbered.h"
#include "mala/models/vision/load.h"
#include "mala/models/vision/probe.h"
#include "mala/tasks/classify.h"
#include "mala/tasks/explain/measures.h"

namespace mala::bench {
namespace {

using nn::Mixer;
using torch::Tensor;

constexpr const char* kWhere = "map_bench";
constexpr const char* kHelp =
    R"(map_bench: how close the attention of trained MAViTs is to softmax's.

  map_bench --data FOLDER [--pictures N] [--beside FILE] MODEL.safetensors...

For each model, and for linear, InLine and MALA attention (both norms) made from its own queries and
keys: the Kullback-Leibler divergence (nats) from softmax's map to the rule's, where negative weights
count as nothing and no share as less than a thousandth of the mean one, and Spearman's rank
correlation. Means over stages (last block of each), heads, all tokens and N pictures (50), spread over
FOLDER. `as trained` is the rule that the model itself has. With --beside, the model's own maps are
also compared with those of that model, by its own rule, as means of their heads: trained apart, on the
same pictures. s is the mean magnitude of the model's queries.
)";

struct Options {
  std::string data, beside;
  int64_t pictures = 50;
  std::vector<std::string> models;
  bool help = false;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--help" || flag == "-h") {
      o.help = true;
    } else if (!flag.starts_with("-")) {
      o.models.push_back(flag);
    } else {
      check(i + 1 < argc, kWhere, flag, " needs a value; try --help");
      const std::string value = argv[++i];
      if (flag == "--data") {
        o.data = value;
      } else if (flag == "--beside") {
        o.beside = value;
      } else if (flag == "--pictures") {
        o.pictures = positive_number<int64_t>(kWhere, flag, value);
      } else {
        check(false, kWhere, "unknown argument '", flag, "'; try --help");
      }
    }
  }
  check(o.help || (!o.data.empty() && !o.models.empty()), kWhere,
        "needs --data FOLDER and files of models; try --help");
  return o;
}

struct Model {
  explicit Model(const std::string& file)
      : name(std::filesystem::path(file).parent_path().filename()) {
    models::LoadedVision loaded = models::load_vision({.weights = file});
    auto* mavit = std::get_if<models::Mavit>(&loaded.model);
    check(mavit != nullptr, kWhere, file,
          " is no MAViT, whose stages alone can be looked into; give a file of one");
    net = *mavit;
    net->eval();
    card = loaded.card;
    if (name.empty()) name = std::filesystem::path(file).stem();
  }
  std::string name;
  models::Mavit net = nullptr;
  models::Card card;
};

std::vector<Tensor> pictures_for(const Model& model, const Options& o) {
  const auto source = data::open_images(o.data);
  const int64_t count = std::min(o.pictures, source->size()), step = source->size() / count;
  const data::Renumbered some(*source, count, [step](int64_t i) { return i * step; });
  std::vector<Tensor> pictures;
  data::ImageBatches batches(some, tasks::view_of(model.card, 1));
  while (const auto batch = batches.next()) {
    for (const data::BadFile& file : batch->skipped) check(false, kWhere, file.reason);
    Tensor pixels = torch::empty({1, batch->size, batch->size, 3});
    std::copy_n(batch->pixels.data(), pixels.numel(), pixels.mutable_data_ptr<float>());
    pictures.push_back(pixels.permute({0, 3, 1, 2}));
  }
  return pictures;
}

void check_alike(const Model& a, const Model& b) {
  check(a.card.image_size == b.card.image_size && a.card.mean == b.card.mean &&
            a.card.deviation == b.card.deviation && a.card.crop == b.card.crop,
        kWhere, a.name, " and ", b.name,
        " see pictures of another size or normalisation; compare models of one kind");
}

// Of one stage, in double: what all rules make their weights from.
struct StageScores {
  nn::MapScores scores;
  Mixer own;
};

std::vector<StageScores> scores_of(Model& model, const Tensor& picture) {
  std::vector<StageScores> stages;
  for (const models::StageProbe& stage : models::probe(*model.net, picture)) {
    check(stage.mixer != Mixer::kMalaRelu && stage.mixer != Mixer::kMalaExp, kWhere, model.name,
          " has the mixer ", nn::word_for(stage.mixer),
          ", whose maps are not written out; give one with mala, mala_balanced, softmax, linear or "
          "inline");
    stages.push_back({score(stage, torch::arange(stage.q.size(1))), stage.mixer});
  }
  return stages;
}

struct Closeness {
  double divergence = 0, rank = 0, magnitude = 0;
  int64_t count = 0;

  // `s` is how large queries are as keys see them.
  void add(const Tensor& truth, const Tensor& map, const Tensor& s) {
    divergence += tasks::divergence(truth, map).mean().item<double>();
    rank += tasks::rank_correlation(truth, map).mean().item<double>();
    magnitude += s.mean().item<double>();
    ++count;
  }
  std::vector<std::string> figures() const {
    const double share = 1.0 / static_cast<double>(count);
    return {format("%.3f", divergence * share), format("%.3f", rank * share),
            format("%.2f", magnitude * share)};
  }
};

// Names of rules, and "as trained", in the order of the table.
using Rows = std::map<std::string, Closeness>;

void measure(Model& model, Model* beside, const Tensor& picture, Rows& rows) {
  constexpr std::array kRules{Mixer::kLinear, Mixer::kInline, Mixer::kMala, Mixer::kMalaBalanced};
  const std::vector<StageScores> stages = scores_of(model, picture);
  const std::vector<StageScores> others =
      beside ? scores_of(*beside, picture) : std::vector<StageScores>{};
  for (size_t i = 0; i < stages.size(); ++i) {
    const auto& [scores, own] = stages[i];
    const Tensor softmax = weights_of(Mixer::kSoftmax, scores);
    for (const Mixer rule : kRules) {
      rows[std::string(nn::word_for(rule))].add(softmax, weights_of(rule, scores),
                                                scores.magnitude);
    }
    const Tensor mine = weights_of(own, scores);
    rows["as trained"].add(softmax, mine, scores.magnitude);
    if (!beside) continue;
    const Tensor theirs = weights_of(others[i].own, others[i].scores);
    rows["as trained, beside " + beside->name].add(theirs.mean(0), mine.mean(0), scores.magnitude);
  }
}

int run(const Options& o) {
  if (o.help) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  const torch::NoGradGuard no_gradients;
  std::unique_ptr<Model> beside;
  if (!o.beside.empty()) beside = std::make_unique<Model>(o.beside);
  std::vector<Line> lines{
      {.labels = {"model", "rule"}, .figures = {"KL", "rank correlation", "s"}}};
  for (const std::string& file : o.models) {
    Model model(file);
    if (beside) check_alike(model, *beside);
    Rows rows;
    for (const Tensor& picture : pictures_for(model, o)) {
      measure(model, beside.get(), picture, rows);
    }
    for (const auto& [rule, closeness] : rows) {
      lines.push_back({.labels = {model.name, rule}, .figures = closeness.figures()});
    }
    std::fprintf(stderr, "%s\n", model.name.c_str());
  }
  std::printf("%s\n", align(lines).c_str());
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
