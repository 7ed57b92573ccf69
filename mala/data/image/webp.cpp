// WebP through libwebp, still or the first frame of a film.
#include <webp/decode.h>
#include <webp/demux.h>

#include <memory>

#include "mala/data/image/codecs.h"
#include "mala/data/image/orientation.h"

namespace mala::data {
namespace {

constexpr const char* kBroken = "is cut short or damaged";

WebPData data_of(Bytes bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

void read_still(const WebPData& data, Image& image, const Source& source) {
  const int stride = static_cast<int>(image.size.width * kChannels);
  const uint8_t* const read =
      WebPDecodeRGBInto(data.bytes, data.size, image.pixels.data(), image.pixels.size(), stride);
  source.check(read != nullptr, kBroken);
}

// Films are composed on a canvas of four channels.
void read_first_frame(const WebPData& data, Image& image, const Source& source) {
  WebPAnimDecoderOptions options;
  source.check(WebPAnimDecoderOptionsInit(&options) != 0, "needs another version of libwebp");
  options.color_mode = MODE_RGBA;
  const std::unique_ptr<WebPAnimDecoder, decltype(&WebPAnimDecoderDelete)> film(
      WebPAnimDecoderNew(&data, &options), WebPAnimDecoderDelete);
  WebPAnimInfo info;
  uint8_t* canvas = nullptr;
  int time = 0;
  source.check(film != nullptr && WebPAnimDecoderGetInfo(film.get(), &info) != 0 &&
                   info.canvas_width == image.size.width &&
                   info.canvas_height == image.size.height &&
                   WebPAnimDecoderGetNext(film.get(), &canvas, &time) != 0,
               kBroken);
  for (size_t pixel = 0; pixel < image.pixels.size() / kChannels; ++pixel) {
    for (size_t c = 0; c < kChannels; ++c) {
      image.pixels[pixel * kChannels + c] = canvas[pixel * 4 + c];
    }
  }
}

int read_exif(const WebPData& data) {
  const std::unique_ptr<WebPDemuxer, decltype(&WebPDemuxDelete)> file(WebPDemux(&data),
                                                                      WebPDemuxDelete);
  WebPChunkIterator chunk;
  if (file == nullptr || WebPDemuxGetChunk(file.get(), "EXIF", 1, &chunk) == 0) return 1;
  const int found = read_orientation(std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size)));
  WebPDemuxReleaseChunkIterator(&chunk);
  return found;
}

}  // namespace

Decoded decode_webp(Bytes bytes, const Source& source, DecodeLimits limits) {
  const WebPData data = data_of(bytes);
  WebPBitstreamFeatures features;
  source.check(WebPGetFeatures(data.bytes, data.size, &features) == VP8_STATUS_OK, kBroken);
  const Size size{features.width, features.height};
  check_size(size, source, limits);
  Image image(size);
  (features.has_animation ? read_first_frame : read_still)(data, image, source);
  return {std::move(image), read_exif(data)};
}

}  // namespace mala::data
