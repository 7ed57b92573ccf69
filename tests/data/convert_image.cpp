// Reads a picture or a part of it, resizes it when asked, and writes it as PPM, for the Python
// tests to compare.
//
//   convert_image IN OUT [WIDTH HEIGHT bilinear|bicubic]
//   convert_image IN OUT LEFT TOP WIDTH HEIGHT
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "mala/core/mapped_file.h"
#include "mala/core/output_file.h"
#include "mala/data/image/decode.h"
#include "mala/data/image/resize.h"

namespace {

mala::data::Image read_part(char** argv) {
  const mala::MappedFile file(mala::Source{"convert_image", argv[1]});
  const auto number = [&](int i) { return std::atol(argv[i]); };
  return mala::data::decode_region(file.bytes(), argv[1], [&](mala::data::Size) {
    return mala::data::Region{number(3), number(4), {number(5), number(6)}};
  });
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3 && argc != 6 && argc != 7) return 2;
  using namespace mala::data;
  Image image = argc == 7 ? read_part(argv) : read_image(argv[1]);
  if (argc == 6) {
    const bool bilinear = std::strcmp(argv[5], "bilinear") == 0;
    image = resize(image, {std::atol(argv[3]), std::atol(argv[4])},
                   bilinear ? Filter::kBilinear : Filter::kBicubic);
  }
  const std::string header = mala::str("P6 ", image.size.width, " ", image.size.height, " 255\n");
  mala::OutputFile file(mala::Source{"convert_image", argv[2]});
  file.write(mala::bytes_of_text(header));
  file.write(std::as_bytes(std::span(image.pixels)));
  file.commit();
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
