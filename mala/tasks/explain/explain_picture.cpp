// Reads, cuts, explains, draws and writes.
#include "mala/tasks/explain/explain_picture.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "mala/core/error.h"
#include "mala/core/output_file.h"
#include "mala/data/image/decode.h"
#include "mala/data/image/encode_png.h"
#include "mala/data/image/prepare.h"
#include "mala/data/image/resize.h"
#include "mala/tasks/classify.h"
#include "mala/tasks/explain/explain.h"
#include "mala/tasks/explain/heat.h"
#include "mala/tasks/explain/page.h"

namespace mala::tasks {
namespace {

constexpr const char* kWhere = "explain";
constexpr int64_t kShownSide = 448;  // sharp enough on a page, small enough inside it

models::VisionRequest with_default(models::VisionRequest request) {
  if (request.weights.empty() && request.model.empty()) request.model = "mavit_t";
  return request;
}

models::Mavit mavit_of(models::LoadedVision& loaded) {
  auto* model = std::get_if<models::Mavit>(&loaded.model);
  check(model != nullptr, kWhere, loaded.card.model,
        " has no stages to look at; give a MAViT, such as --model mavit_t");
  (*model)->eval();
  return *model;
}

// The middle of the picture that the model sees, `times` as many pixels on a side.
data::Image middle_of(const data::Image& whole, const models::Card& card, int64_t times) {
  const int64_t side = times * card.image_size;
  const auto short_side = std::max(side, std::lround(static_cast<double>(side) / card.crop));
  return centre_crop(resize(whole, with_short_side(whole.size, short_side)), {side, side});
}

// As large as is good to look at, but not larger than the picture itself is.
int64_t times_shown(const data::Image& whole, const models::Card& card) {
  const int64_t short_side = std::min(whole.size.width, whole.size.height);
  const auto seen = static_cast<int64_t>(static_cast<double>(short_side) * card.crop);
  return std::max<int64_t>(std::min(seen, kShownSide) / card.image_size, 1);
}

torch::Tensor numbers_of(const data::Image& image, const models::Card& card) {
  const torch::Tensor numbers = torch::empty({1, image.size.height, image.size.width, 3});
  normalize(image, view_of(card, 1).normalization, data::PixelOrder::kPixels,
            {numbers.mutable_data_ptr<float>(), static_cast<size_t>(numbers.numel())});
  return numbers.permute({0, 3, 1, 2});
}

// Where the pixel lies in the square middle, `part` of the short side long.
Point point_of(Pixel pixel, data::Size size, double part) {
  const auto side = part * static_cast<double>(std::min(size.width, size.height));
  const double left = (static_cast<double>(size.width) - side) / 2;
  const double top = (static_cast<double>(size.height) - side) / 2;
  const Point point{(pixel.x + 0.5 - left) / side, (pixel.y + 0.5 - top) / side};
  check(point.x >= 0 && point.x <= 1 && point.y >= 0 && point.y <= 1, kWhere, "the model does not ",
        "see pixel ", pixel.x, ",", pixel.y, " of ", size.width, " x ", size.height,
        ": it sees x from ", std::ceil(left), " to ", std::floor(left + side) - 1, " and y from ",
        std::ceil(top), " to ", std::floor(top + side) - 1, "; point there");
  return point;
}

Pixel centre_of(data::Size size) {
  return {static_cast<double>(size.width - 1) / 2, static_cast<double>(size.height - 1) / 2};
}

void write_text(const std::string& path, const std::string& text) {
  OutputFile file({kWhere, path});
  file.write(bytes_of_text(text));
  file.commit();
}

std::vector<std::string> write_pictures(const std::filesystem::path& folder, const PageFacts& facts,
                                        const std::vector<StageExplanation>& stages) {
  std::vector<std::string> paths;
  const auto write = [&](const std::string& name, data::Image image) {
    draw_ring(image, facts.point.x, facts.point.y);
    paths.push_back(folder / name);
    data::write_png(paths.back(), image);
  };
  write("picture.png", facts.picture);
  for (size_t i = 0; i < stages.size(); ++i) {
    for (size_t rule = 0; rule < kRules; ++rule) {
      const data::Size grid{stages[i].grid.width, stages[i].grid.height};
      const data::Image heat = draw_heat(stages[i].maps[rule].weights.front(), grid);
      write(str("stage", i + 1, "_", nn::word_for(kExplained[rule]), ".png"),
            lay_over(facts.picture, heat));
    }
  }
  return paths;
}

}  // namespace

Explained explain_picture(const ExplainRequest& request) {
  const data::Image whole = data::read_image(request.picture);
  models::LoadedVision loaded = load_vision(with_default(request.model));
  const models::Card& card = loaded.card;
  models::Mavit model = mavit_of(loaded);
  const Point point =
      point_of(request.at.value_or(centre_of(whole.size)), whole.size, std::min(card.crop, 1.0));
  const auto& [device, dtype] = request.placement;
  model->to(device, dtype);
  const torch::Tensor seen = numbers_of(middle_of(whole, card, 1), card).to(device, dtype);
  const std::vector<StageExplanation> stages = explain(*model, seen, point);
  const PageFacts facts{.file = std::filesystem::path(request.picture).filename(),
                        .model = card.model,
                        .weights = std::filesystem::path(request.model.weights).filename(),
                        .picture = middle_of(whole, card, times_shown(whole, card)),
                        .point = point};
  const std::filesystem::path folder = request.folder;
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  check(!failure, kWhere, "cannot make the folder ", request.folder, ": ", failure.message());
  Explained explained{.page = folder / "index.html",
                      .pictures = write_pictures(folder, facts, stages),
                      .model = card.model,
                      .is_trained = loaded.is_trained};
  write_text(explained.page, draw_page(facts, stages));
  return explained;
}

}  // namespace mala::tasks
