// Loads a MAViT and says what is in a picture: classify WEIGHTS PICTURE
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "mala/data/image/decode.h"
#include "mala/data/image/prepare.h"
#include "mala/data/image/resize.h"
#include "mala/models/vision/load.h"
#include "mala/models/vision/mavit_inference.h"

using namespace mala;

// (1, 3, side, side): the picture as the model saw others in training.
torch::Tensor view(const std::string& path, const models::Card& card) {
  const data::Image image = data::read_image(path);
  const int64_t side = card.image_size;
  const int64_t short_side = std::lround(static_cast<double>(side) / card.crop);
  const data::Image resized = data::resize(image, data::with_short_side(image.size, short_side));
  data::Normalization normalization;
  std::copy(card.mean.begin(), card.mean.end(), normalization.mean.begin());
  std::copy(card.deviation.begin(), card.deviation.end(), normalization.deviation.begin());
  const torch::Tensor pixels = torch::empty({1, 3, side, side});
  data::normalize(data::centre_crop(resized, {side, side}), normalization,
                  data::PixelOrder::kPlanes,
                  {pixels.mutable_data_ptr<float>(), static_cast<size_t>(pixels.numel())});
  return pixels;
}

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "classify WEIGHTS PICTURE\n");
    return 2;
  }
  const models::LoadedVision loaded = models::load_vision({.weights = argv[1]});
  const models::MavitInference model(*std::get<models::Mavit>(loaded.model));
  const torch::Tensor logits = model.forward(view(argv[2], loaded.card));
  const auto [probability, index] = torch::softmax(logits, 1).max(1);
  const auto& labels = loaded.card.labels;
  const auto best = index.item<int64_t>();
  const std::string name = labels.empty() ? "class" : labels[static_cast<size_t>(best)];
  std::printf("%lld %s %.4f\n", static_cast<long long>(best), name.c_str(),
              probability.item<double>());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
