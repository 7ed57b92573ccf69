// PNG through libpng's simplified interface, which reports errors by return values.
#include "mala/data/image/encode_png.h"

#include <png.h>

#include "mala/core/error.h"
#include "mala/core/output_file.h"

namespace mala::data {
namespace {

void check_picture(const Image& image) {
  const Size size = image.size;
  check(has_up_to(size, kMostPixels), "encode_png", "the picture has ", size.width, " x ",
        size.height, " pixels; sides of at least 1 and at most ", kMostPixels,
        " pixels can be written");
  const auto levels = static_cast<size_t>(size.width * size.height * kChannels);
  check(image.pixels.size() == levels, "encode_png", "the picture has ", image.pixels.size(),
        " levels; ", size.width, " x ", size.height, " pixels need ", levels);
}

}  // namespace

std::vector<std::byte> encode_png(const Image& image) {
  check_picture(image);
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.size.width);
  header.height = static_cast<png_uint_32>(image.size.height);
  header.format = PNG_FORMAT_RGB;
  size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(header);  // never too small, so one pass is enough
  std::vector<std::byte> file(bytes);
  const bool is_done =
      png_image_write_to_memory(&header, file.data(), &bytes, 0, image.pixels.data(), 0, nullptr);
  check(is_done, "encode_png", "libpng could not write ", image.size.width, " x ",
        image.size.height, " pixels: ", header.message);
  file.resize(bytes);
  return file;
}

void write_png(const std::string& path, const Image& image) {
  const std::vector<std::byte> bytes = encode_png(image);
  OutputFile file({"write_png", path});
  file.write(bytes);
  file.commit();
}

}  // namespace mala::data
