// PPM and PGM: a header in words, then numbers as bytes or as text.
#include <algorithm>
#include <cctype>

#include "mala/data/image/codecs.h"

namespace mala::data {
namespace {

constexpr int64_t kMostNumber = 1'000'000'000;  // beyond any size; larger ones would overflow

class PnmReader {
 public:
  PnmReader(Bytes bytes, const Source& source) : text_(text_of(bytes)), source_(source) {}

  size_t left() const { return text_.size() - at_; }
  bool ended() const { return at_ >= text_.size(); }

  // A whole number behind blanks and comments.
  int64_t number() {
    skip_blanks();
    source_.check(!ended(), "ends early");
    source_.check(is_digit(), "has ", in_quotes(text_.substr(at_, 1)), " where a number should be");
    int64_t value = 0;
    for (; !ended() && is_digit(); ++at_) {
      value = std::min<int64_t>(value * 10 + (text_[at_] - '0'), kMostNumber);
    }
    return value;
  }

  int64_t byte() { return static_cast<unsigned char>(text_[at_++]); }
  void skip(size_t count) { at_ += count; }

 private:
  bool is_digit() const { return std::isdigit(static_cast<unsigned char>(text_[at_])) != 0; }
  bool is_blank() const { return std::isspace(static_cast<unsigned char>(text_[at_])) != 0; }

  void skip_blanks() {
    while (!ended() && (is_blank() || text_[at_] == '#')) {
      if (text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size() - 1);
      ++at_;
    }
  }

  std::string_view text_;
  const Source& source_;
  size_t at_ = 0;
};

struct Header {
  bool in_words, grey;
  Size size;
  int64_t largest;  // the number that stands for white
};

Header read_header(PnmReader& reader, const Source& source) {
  reader.skip(1);
  const int64_t kind = reader.byte() - '0';
  Header header{kind == 2 || kind == 3, kind == 2 || kind == 5, {}, 0};
  header.size.width = reader.number();
  header.size.height = reader.number();
  header.largest = reader.number();
  source.check(header.largest > 0 && header.largest < 0x10000, "says that white is ",
               header.largest, ", which must be 1 to 65535");
  return header;
}

// A few bytes may claim a large picture: there must be some for every number.
void check_length(const PnmReader& reader, const Header& header, int64_t numbers,
                  const Source& source) {
  const int64_t width = header.largest > 255 ? 2 : 1;
  const int64_t needed = header.in_words ? 2 * numbers : 1 + width * numbers;
  source.check(static_cast<int64_t>(reader.left()) >= needed, "is cut short: it has ",
               reader.left(), " bytes behind its header and needs ", needed);
}

uint8_t read_level(PnmReader& reader, const Header& header) {
  int64_t level = header.in_words ? reader.number() : reader.byte();
  if (!header.in_words && header.largest > 255) level = level * 256 + reader.byte();
  level = std::min(level, header.largest);
  return static_cast<uint8_t>((level * 255 + header.largest / 2) / header.largest);
}

}  // namespace

Decoded decode_pnm(Bytes bytes, const Source& source, DecodeLimits limits) {
  PnmReader reader(bytes, source);
  const Header header = read_header(reader, source);
  check_size(header.size, source, limits);
  const int64_t pixels = header.size.width * header.size.height;
  check_length(reader, header, header.grey ? pixels : pixels * kChannels, source);
  if (!header.in_words) reader.skip(1);  // the one blank behind the header
  Decoded decoded{Image(header.size)};
  for (size_t i = 0; i < decoded.image.pixels.size(); ++i) {
    const bool repeats = header.grey && i % kChannels != 0;
    decoded.image.pixels[i] = repeats ? decoded.image.pixels[i - 1] : read_level(reader, header);
  }
  return decoded;
}

}  // namespace mala::data
