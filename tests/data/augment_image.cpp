// Does one operation of the augmentations to a picture and writes it as PNG, for the Python tests
// to compare with Pillow.
//
//   augment_image IN OUT OPERATION [NUMBER]... [bilinear|bicubic]
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mala/core/error.h"
#include "mala/data/augment/affine.h"
#include "mala/data/augment/blends.h"
#include "mala/data/augment/crop.h"
#include "mala/data/augment/levels.h"
#include "mala/data/image/decode.h"
#include "mala/data/image/encode_png.h"

namespace {

using namespace mala::data;

struct Arguments {
  std::vector<double> numbers;
  Frame frame;

  double operator[](size_t i) const { return numbers.at(i); }
  int whole(size_t i) const { return static_cast<int>(numbers.at(i)); }
};

using Operation = std::function<void(Image&, const Arguments&)>;

const std::map<std::string, Operation> kOperations{
    {"invert", [](Image& x, const Arguments&) { invert(x); }},
    {"autocontrast", [](Image& x, const Arguments&) { autocontrast(x); }},
    {"equalize", [](Image& x, const Arguments&) { equalize(x); }},
    {"mirror", [](Image& x, const Arguments&) { mirror(x); }},
    {"solarize", [](Image& x, const Arguments& a) { solarize(x, a.whole(0)); }},
    {"solarize_add", [](Image& x, const Arguments& a) { solarize_add(x, a.whole(0)); }},
    {"posterize", [](Image& x, const Arguments& a) { posterize(x, a.whole(0)); }},
    {"brightness", [](Image& x, const Arguments& a) { adjust_brightness(x, a[0]); }},
    {"contrast", [](Image& x, const Arguments& a) { adjust_contrast(x, a[0]); }},
    {"colour", [](Image& x, const Arguments& a) { adjust_colour(x, a[0]); }},
    {"sharpness", [](Image& x, const Arguments& a) { adjust_sharpness(x, a[0]); }},
    {"rotate",
     [](Image& x, const Arguments& a) { x = transform(x, rotation(a[0], x.size), a.frame); }},
    {"affine",
     [](Image& x, const Arguments& a) {
       x = transform(x, {a[0], a[1], a[2], a[3], a[4], a[5]}, a.frame);
     }},
};

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments{.numbers = {}, .frame = {.filter = Filter::kBicubic, .fill = {10, 200, 90}}};
  for (int i = 4; i < argc; ++i) {
    const std::string text = argv[i];
    if (text == "bilinear") {
      arguments.frame.filter = Filter::kBilinear;
    } else if (text != "bicubic") {
      arguments.numbers.push_back(std::stod(text));
    }
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) return 2;
  Image image = read_image(argv[1]);
  kOperations.at(argv[3])(image, read_arguments(argc, argv));
  write_png(argv[2], image);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
