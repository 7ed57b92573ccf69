// PNG through libpng: every colour type becomes eight-bit RGB.
#include <png.h>

#include <cstring>

#include "mala/data/image/codec_errors.h"
#include "mala/data/image/codecs.h"
#include "mala/data/image/orientation.h"

namespace mala::data {
namespace {

// Chunks that we do not ask for, and that may unpack from kilobytes to gigabytes: libpng would take
// a thousand of eight megabytes each. Their names, each with its zero behind it.
constexpr png_byte kUnread[] = "iCCP\0iTXt\0sPLT\0tEXt\0zTXt";
constexpr int kUnreadCount = sizeof kUnread / 5;

struct PngInput {
  Bytes bytes;
  size_t at = 0;
};

void on_error(png_structp png, png_const_charp text) {
  auto& errors = *static_cast<CodecErrors*>(png_get_error_ptr(png));
  errors.set_words(text);
  std::longjmp(errors.way_out, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, size_t count) {
  auto& input = *static_cast<PngInput*>(png_get_io_ptr(png));
  if (!fits(input.at, count, input.bytes.size())) png_error(png, "it ends early");
  std::memcpy(to, input.bytes.data() + input.at, count);
  input.at += count;
}

class PngDecoder {
 public:
  PngDecoder(Bytes bytes, const Source& source) : source_(source), input_{bytes} {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors_, on_error, on_warning);
    source.check(png_ != nullptr, "cannot be decoded: no memory for libpng");
    guard([&] {
      info_ = png_create_info_struct(png_);
      png_set_read_fn(png_, &input_, on_read);
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kUnread, kUnreadCount);
      png_read_info(png_, info_);
    });
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  Size size() const {
    return {png_get_image_width(png_, info_), png_get_image_height(png_, info_)};
  }

  Image read() {
    guard([&] {
      png_set_expand_gray_1_2_4_to_8(png_);
      if (png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
      png_set_strip_16(png_);
      png_set_strip_alpha(png_);
      png_set_gray_to_rgb(png_);
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
    });
    Image image(size());
    const size_t row_bytes = png_get_rowbytes(png_, info_);
    source_.check(row_bytes == static_cast<size_t>(image.size.width * kChannels), "has rows of ",
                  row_bytes, " bytes for ", image.size.width, " pixels");
    std::vector<png_bytep> rows;
    for (int64_t y = 0; y < image.size.height; ++y) rows.push_back(image.row(y));
    guard([&] {
      png_read_image(png_, rows.data());
      png_read_end(png_, info_);
    });
    return image;
  }

  // Known once all is read, as the block may stand behind the pixels.
  int orientation() const {
    png_uint_32 count = 0;
    png_bytep exif = nullptr;
    if (png_get_eXIf_1(png_, info_, &count, &exif) == 0 || exif == nullptr) return 1;
    return read_orientation(std::as_bytes(std::span(exif, count)));
  }

 private:
  template <typename Calls>
  void guard(const Calls& calls) {
    if (completes(errors_, calls)) return;
    png_destroy_read_struct(&png_, &info_, nullptr);  // as the constructor may be on its way out
    source_.fail(str("is cut short or damaged: ", errors_.words));
  }

  const Source& source_;
  PngInput input_;
  CodecErrors errors_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

Decoded decode_png(Bytes bytes, const Source& source, DecodeLimits limits) {
  PngDecoder decoder(bytes, source);
  check_size(decoder.size(), source, limits);
  Image image = decoder.read();
  return {std::move(image), decoder.orientation()};
}

}  // namespace mala::data
