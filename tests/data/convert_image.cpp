// Reads a picture, resizes it when asked, and writes it as PPM, for the Python tests to compare.
//
//   convert_image IN OUT [WIDTH HEIGHT bilinear|bicubic]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "mala/core/output_file.h"
#include "mala/data/image/decode.h"
#include "mala/data/image/resize.h"

int main(int argc, char** argv) try {
  if (argc != 3 && argc != 6) return 2;
  using namespace mala::data;
  Image image = read_image(argv[1]);
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
