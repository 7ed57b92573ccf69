// JPEG through libjpeg-turbo, strict where pixels would be made up.
#include <cstddef>
#include <cstdio>  // jpeglib.h needs FILE

// These want <cstdio> before them.
#include <jpeglib.h>
// Codes of warnings.
#include <jerror.h>

#include <algorithm>
#include <cstring>

#include "mala/data/image/codec_errors.h"
#include "mala/data/image/codecs.h"
#include "mala/data/image/orientation.h"

namespace mala::data {
namespace {

constexpr int kExifMarker = JPEG_APP0 + 1;
// A progressive file may repeat the work for the whole picture in scans of a few bytes.
constexpr int kMostScans = 500;

struct JpegErrors : CodecErrors {
  bool lost_pixels = false;
};

void on_error(j_common_ptr info) {
  auto& errors = *static_cast<JpegErrors*>(info->client_data);
  char text[JMSG_LENGTH_MAX];
  info->err->format_message(info, text);
  errors.set_words(text);
  std::longjmp(errors.way_out, 1);
}

// libjpeg fills in grey for what it cannot read, and warns; so it does where a progression lacks a
// scan, whose bits stay zero. Other warnings lose nothing.
void on_message(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  const bool loses = code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER ||
                     code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE ||
                     code == JWRN_BOGUS_PROGRESSION || code == JWRN_MUST_RESYNC;
  auto& errors = *static_cast<JpegErrors*>(info->client_data);
  if (level >= 0 || !loses || errors.lost_pixels) return;
  char text[JMSG_LENGTH_MAX];
  info->err->format_message(info, text);
  errors.set_words(text);
  errors.lost_pixels = true;
}

void on_progress(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMostScans) return;
  auto& errors = *static_cast<JpegErrors*>(info->client_data);
  errors.set_words("it has more scans than any camera writes");
  std::longjmp(errors.way_out, 1);
}

class JpegDecoder {
 public:
  JpegDecoder(Bytes bytes, const Source& source) : source_(source) {
    info_.err = jpeg_std_error(&handlers_);
    handlers_.error_exit = on_error;
    handlers_.emit_message = on_message;
    info_.client_data = &errors_;
    guard([&] {
      jpeg_create_decompress(&info_);
      info_.progress = &progress_;
      jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
      jpeg_save_markers(&info_, kExifMarker, 0xFFFF);
      jpeg_read_header(&info_, TRUE);
    });
    progress_.progress_monitor = on_progress;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  Size size() const { return {info_.image_width, info_.image_height}; }

  int orientation() const {
    for (const jpeg_marker_struct* marker = info_.marker_list; marker; marker = marker->next) {
      const Bytes data = std::as_bytes(std::span(marker->data, marker->data_length));
      if (marker->marker == kExifMarker && text_of(data).starts_with("Exif")) {
        return read_orientation(data);
      }
    }
    return 1;
  }

  // What lies outside the region is read, so that damage is noticed, but not worked out.
  Image read(const Region& region) {
    const bool has_ink = info_.num_components == 4;
    info_.out_color_space = has_ink ? JCS_CMYK : JCS_RGB;
    Image image(region.size);
    const auto samples = static_cast<size_t>(has_ink ? 4 : kChannels);
    std::vector<uint8_t> line(static_cast<size_t>(size().width) * samples);
    guard([&] {
      jpeg_start_decompress(&info_);
      const int64_t inset = narrow(region);
      jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(region.top));
      uint8_t* const first = line.data() + static_cast<size_t>(inset) * samples;
      const bool in_place = !has_ink && info_.output_width == image.size.width;
      for (int64_t y = 0; y < region.size.height; ++y) {
        uint8_t* to = in_place ? image.row(y) : line.data();
        jpeg_read_scanlines(&info_, &to, 1);
        if (has_ink) {
          light_of_ink(first, image.size.width, image.row(y));
        } else if (!in_place) {
          std::memcpy(image.row(y), first, static_cast<size_t>(image.size.width * kChannels));
        }
      }
      skip_to_end(line.data());
      jpeg_finish_decompress(&info_);
    });
    source_.check(!errors_.lost_pixels, "is cut short or damaged: ", errors_.words);
    return image;
  }

 private:
  // Leaves out whole columns of blocks beside the region; how far within the rest it begins. One
  // more block on each side stays, since chroma is smoothed over block borders.
  int64_t narrow(const Region& region) {
    const int64_t block = int64_t{info_.max_h_samp_factor} * DCTSIZE;
    const int64_t end = std::min(region.left + region.size.width + block, size().width);
    auto begin = static_cast<JDIMENSION>(std::max<int64_t>(region.left - block, 0));
    auto width = static_cast<JDIMENSION>(end) - begin;
    if (begin > 0 || width < info_.output_width) jpeg_crop_scanline(&info_, &begin, &width);
    return region.left - begin;
  }

  // A skip to the very end would not even look at what is skipped, so the last line is read.
  void skip_to_end(uint8_t* line) {
    const JDIMENSION left = info_.output_height - info_.output_scanline;
    if (left == 0) return;
    jpeg_skip_scanlines(&info_, left - 1);
    jpeg_read_scanlines(&info_, &line, 1);
  }

  // Adobe's programs, and all others after them, store 255 for no ink.
  static void light_of_ink(const uint8_t* ink, int64_t width, uint8_t* row) {
    for (int64_t i = 0; i < width; ++i, ink += 4, row += kChannels) {
      for (int64_t c = 0; c < kChannels; ++c) {
        const int product = (255 - ink[c]) * ink[3] + 128;
        row[c] = static_cast<uint8_t>(ink[3] - (((product >> 8) + product) >> 8));
      }
    }
  }

  template <typename Calls>
  void guard(const Calls& calls) {
    if (completes(errors_, calls)) return;
    const std::string words = errors_.words;
    jpeg_destroy_decompress(&info_);  // as the constructor may be on its way out
    source_.fail("is cut short or damaged: " + words);
  }

  const Source& source_;
  jpeg_decompress_struct info_{};
  jpeg_error_mgr handlers_{};
  jpeg_progress_mgr progress_{};
  JpegErrors errors_;
};

}  // namespace

Decoded decode_jpeg(Bytes bytes, const Source& source, DecodeLimits limits) {
  JpegDecoder decoder(bytes, source);
  check_size(decoder.size(), source, limits);
  const int orientation = decoder.orientation();  // forgotten once all is read
  return {decoder.read(whole(decoder.size())), orientation};
}

Image decode_jpeg_region(Bytes bytes, const Source& source, DecodeLimits limits,
                         const ChooseRegion& choose) {
  JpegDecoder decoder(bytes, source);
  check_size(decoder.size(), source, limits);
  const int orientation = decoder.orientation();
  if (orientation != 1) {
    const Image image = upright(decoder.read(whole(decoder.size())), orientation);
    return crop(image, choose(image.size));
  }
  const Region region = choose(decoder.size());
  check_region(region, decoder.size());
  return decoder.read(region);
}

}  // namespace mala::data
