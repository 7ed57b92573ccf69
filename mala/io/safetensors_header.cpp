// Reads the header event by event and refuses at the first wrong one, so that a hostile header
// costs some ten times its own size in memory and not more: names and entries, but no tree of JSON.
#include "mala/io/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace mala::io {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 3> kFields{"dtype", "shape", "data_offsets"};

// Where in the header the parser is.
enum class Place { kOutside, kTop, kMetadata, kEntry, kShape, kOffsets, kDone };

class HeaderParser : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderParser(const Source& source) : source_(source) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (place_ == Place::kOutside) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop) {
      place_ = key_ == "__metadata__" ? Place::kMetadata : Place::kEntry;
      if (place_ == Place::kEntry) start_entry();
    } else {
      refuse("an object");
    }
    return true;
  }

  bool key(std::string& key) override {
    check_name(key, source_);
    key_ = key;
    if (place_ == Place::kTop) {
      source_.check(names_.insert(key).second, "the header has ", in_quotes(key), " twice");
    } else if (place_ == Place::kEntry) {
      note_field();
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kEntry) check_complete();
    place_ = place_ == Place::kTop ? Place::kDone : Place::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kEntry || key_ == "dtype") refuse("a list");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool end_array() override {
    place_ = Place::kEntry;
    return true;
  }

  bool string(std::string& text) override {
    if (place_ == Place::kMetadata) {
      source_.check(header_.metadata.emplace(key_, text).second, "the header's metadata has ",
                    in_quotes(key_), " twice");
    } else if (place_ == Place::kEntry && key_ == "dtype") {
      entry().type = text;
    } else {
      refuse("text");
    }
    return true;
  }

  bool number_unsigned(uint64_t number) override {
    if (place_ == Place::kShape) {
      source_.check(number <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max()),
                    "the header gives ", in_quotes(entry().name), " the size ", number);
      source_.check(entry().shape.size() < kMostDims, "the header gives ", in_quotes(entry().name),
                    " more than ", kMostDims, " dimensions");
      entry().shape.push_back(static_cast<int64_t>(number));
    } else if (place_ == Place::kOffsets && offsets_ < 2) {
      entry().offsets[offsets_++] = number;
    } else {
      refuse("a number");
    }
    return true;
  }

  bool null() override { return refuse("null"); }
  bool boolean(bool) override { return refuse("true or false"); }
  bool number_integer(int64_t) override { return refuse("a negative number"); }
  bool number_float(double, const std::string&) override {
    return refuse("a number that is not whole or too large");
  }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool parse_error(std::size_t at, const std::string&, const Json::exception&) override {
    source_.fail(str("the header is not JSON: wrong at its byte ", at,
                     "; the file is damaged or no safetensors file"));
  }

 private:
  HeaderEntry& entry() { return header_.entries.back(); }

  void start_entry() {
    header_.entries.emplace_back().name = key_;
    fields_ = {};
    offsets_ = 0;
  }

  // A field that comes twice is as suspect as one we do not know: which of them counts?
  void note_field() {
    const auto field = std::find(kFields.begin(), kFields.end(), key_);
    source_.check(field != kFields.end(), "the header gives ", in_quotes(entry().name),
                  " the unknown field ", in_quotes(key_),
                  "; known are dtype, shape and data_offsets");
    bool& seen = fields_[static_cast<size_t>(field - kFields.begin())];
    source_.check(!seen, "the header gives ", in_quotes(entry().name), " ", in_quotes(key_),
                  " twice");
    seen = true;
  }

  void check_complete() {
    const bool all = std::find(fields_.begin(), fields_.end(), false) == fields_.end();
    source_.check(all && offsets_ == 2, "the header of ", in_quotes(entry().name),
                  " lacks dtype, shape or data_offsets");
  }

  bool refuse(const char* what) {
    source_.fail(str("the header has ", what, " at ", in_quotes(key_),
                     ", where the format has none; the file is damaged"));
  }

  const Source& source_;
  SafetensorsHeader header_;
  std::unordered_set<std::string> names_;
  std::string key_;
  std::array<bool, kFields.size()> fields_{};  // which of them the entry has had
  size_t offsets_ = 0;                         // how many of the entry's two
  Place place_ = Place::kOutside;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, const Source& source) {
  HeaderParser parser(source);
  Json::sax_parse(json.begin(), json.end(), &parser);
  return parser.take();
}

}  // namespace mala::io
