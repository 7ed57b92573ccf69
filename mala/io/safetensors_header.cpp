// Reads the header event by event, so that a hostile one costs no more memory than its own size.
#include "mala/io/safetensors_header.h"

#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

namespace mala::io {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostDims = 64;  // as many as torch has

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
      if (place_ == Place::kEntry) header_.entries.emplace_back().name = key_;
    } else {
      refuse("an object");
    }
    return true;
  }

  bool key(std::string& key) override {
    key_ = key;
    if (place_ == Place::kTop) {
      source_.check(names_.insert(key).second, "the header has ", in_quotes(key), " twice");
    } else if (place_ == Place::kEntry) {
      check_field();
    }
    return true;
  }

  bool end_object() override {
    place_ = place_ == Place::kTop ? Place::kDone : Place::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kEntry || key_ == "dtype") refuse("a list");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    if (place_ == Place::kShape) entry().has_shape = true;
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
    } else if (place_ == Place::kOffsets && entry().offsets.size() < 2) {
      entry().offsets.push_back(number);
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

  // A field that comes twice is as suspect as one we do not know: which of them counts?
  void check_field() {
    const bool seen = (key_ == "dtype" && !entry().type.empty()) ||
                      (key_ == "shape" && entry().has_shape) ||
                      (key_ == "data_offsets" && !entry().offsets.empty());
    source_.check(!seen, "the header gives ", in_quotes(entry().name), " ", in_quotes(key_),
                  " twice");
    const bool known = key_ == "dtype" || key_ == "shape" || key_ == "data_offsets";
    source_.check(known, "the header gives ", in_quotes(entry().name), " the unknown field ",
                  in_quotes(key_), "; known are dtype, shape and data_offsets");
  }

  bool refuse(const char* what) {
    source_.fail(str("the header has ", what, " at ", in_quotes(key_),
                     ", where the format has none; the file is damaged"));
  }

  const Source& source_;
  SafetensorsHeader header_;
  std::unordered_set<std::string> names_;
  std::string key_;
  Place place_ = Place::kOutside;
};

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, const Source& source) {
  HeaderParser parser(source);
  Json::sax_parse(json.begin(), json.end(), &parser);
  return parser.take();
}

}  // namespace mala::io
