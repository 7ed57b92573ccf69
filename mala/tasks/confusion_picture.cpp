// A confusion matrix as a picture.
#include <algorithm>
#include <array>
#include <cmath>

#include "mala/tasks/evaluate.h"

namespace mala::tasks {
namespace {

using Colour = std::array<double, 3>;

constexpr Colour kPaper{255, 255, 255}, kCorrect{11, 110, 60}, kWrong{178, 24, 43};
constexpr int64_t kSide = 640, kSmallestSquare = 4;

// Small shares must be seen: one picture in a hundred is a tenth of the way.
void paint(double share, const Colour& full, uint8_t* pixel) {
  const double depth = std::sqrt(share);
  for (size_t c = 0; c < full.size(); ++c) {
    pixel[c] = static_cast<uint8_t>(std::lround(kPaper[c] + depth * (full[c] - kPaper[c])));
  }
}

// Pixels on a side of one square; thousands of classes have to do with one pixel each.
int64_t square_of(int64_t classes) {
  if (classes * kSmallestSquare > 4 * kSide) return 1;
  return std::max(kSmallestSquare, kSide / classes);
}

}  // namespace

data::Image picture_of(const Confusion& confusion) {
  const int64_t classes = confusion.classes(), square = square_of(classes);
  data::Image image({classes * square, classes * square});
  for (int64_t label = 0; label < classes; ++label) {
    const auto all = static_cast<double>(std::max<int64_t>(1, confusion.count(label)));
    for (int64_t y = label * square; y < (label + 1) * square; ++y) {
      for (int64_t x = 0; x < classes * square; ++x) {
        const int64_t answer = x / square;
        paint(static_cast<double>(confusion.count(label, answer)) / all,
              label == answer ? kCorrect : kWrong, image.row(y) + 3 * x);
      }
    }
  }
  return image;
}

}  // namespace mala::tasks
