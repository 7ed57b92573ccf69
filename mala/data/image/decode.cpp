// Tells the kinds of picture files apart by their first bytes.
#include "mala/data/image/decode.h"

#include <string_view>

#include "mala/core/mapped_file.h"
#include "mala/data/image/codecs.h"
#include "mala/data/image/orientation.h"

namespace mala::data {
namespace {

using Decode = Decoded (*)(Bytes, const Source&, DecodeLimits);

bool is_pnm(std::string_view text) {
  return text.size() > 2 && text[0] == 'P' &&
         (text[1] == '2' || text[1] == '3' || text[1] == '5' || text[1] == '6');
}

// nullptr for kinds we do not read.
Decode decoder_for(std::string_view text) {
  if (text.starts_with("\xFF\xD8")) return decode_jpeg;
  if (text.starts_with("\x89PNG\r\n\x1A\n")) return decode_png;
  if (text.starts_with("RIFF") && text.substr(0, 12).ends_with("WEBP")) return decode_webp;
  return is_pnm(text) ? decode_pnm : nullptr;
}

// Kinds that people have and we do not read.
std::string_view known_kind(std::string_view text) {
  if (text.starts_with("GIF8")) return "a GIF picture";
  if (text.starts_with("BM")) return "a BMP picture";
  if (text.starts_with("II*") || text.starts_with("MM")) return "a TIFF picture";
  if (text.size() > 12 && text.substr(4, 4) == "ftyp") return "a HEIC or AVIF picture or a film";
  if (text.starts_with("<")) return "a web page or an SVG picture";
  if (text.starts_with("version https://git-lfs")) return "a pointer of Git LFS";
  return "no picture of a kind we know";
}

Decode find_decoder(Bytes bytes, const Source& source) {
  source.check(!bytes.empty(), "is empty");
  const Decode decode = decoder_for(text_of(bytes));
  source.check(decode != nullptr, "is ", known_kind(text_of(bytes)),
               "; JPEG, PNG, WebP, PPM and PGM are read");
  return decode;
}

}  // namespace

bool looks_like_picture(Bytes bytes) { return decoder_for(text_of(bytes)) != nullptr; }

void check_size(Size size, const Source& source, DecodeLimits limits) {
  source.check(size.width > 0 && size.height > 0, "has no pixels: it is ", size.width, " by ",
               size.height);
  source.check(has_up_to(size, limits.max_pixels), "is ", size.width, " by ", size.height,
               " pixels, more than the limit of ", limits.max_pixels,
               " in all; make it smaller or raise max_pixels");
}

Image decode_image(Bytes bytes, const std::string& name, DecodeLimits limits) {
  const Source source{"read_image", name};
  Decoded decoded = find_decoder(bytes, source)(bytes, source, limits);
  return upright(std::move(decoded.image), decoded.orientation);
}

Image decode_region(Bytes bytes, const std::string& name, const ChooseRegion& choose,
                    DecodeLimits limits) {
  const Source source{"read_image", name};
  if (find_decoder(bytes, source) == decode_jpeg) {
    return decode_jpeg_region(bytes, source, limits, choose);
  }
  const Image image = decode_image(bytes, name, limits);
  return crop(image, choose(image.size));
}

Image read_image(const std::string& path, DecodeLimits limits) {
  const MappedFile file(Source{"read_image", path});
  return decode_image(file.bytes(), path, limits);
}

}  // namespace mala::data
