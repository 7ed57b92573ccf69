// The card as text: numbers and lists are JSON.
#include "mala/models/card.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace mala::models {
namespace {

using nlohmann::json;

constexpr int64_t kLargestSide = 10'000;  // pictures have 100 million pixels at most

// The value under a key, if it is there; text is taken as it is, all else as JSON.
class Reader {
 public:
  Reader(const Metadata& metadata, const Source& source) : metadata_(metadata), source_(source) {}

  void read(const char* key, std::string& value) const {
    if (const std::string* text = find(key)) value = *text;
  }

  // `needs` ends the sentence that refuses anything else.
  template <typename T, typename IsRight>
  void read(const char* key, T& value, const char* needs, IsRight is_right) const {
    const std::string* text = find(key);
    if (!text) return;
    try {
      T parsed = json::parse(*text).get<T>();
      if (is_right(parsed)) {
        value = std::move(parsed);
        return;
      }
    } catch (const json::exception&) {  // refused below, as other wrong values are
    }
    source_.fail(str("its metadata has ", in_quotes(*text), " for ", key, "; it needs ", needs));
  }

 private:
  const std::string* find(const char* key) const {
    const auto found = metadata_.find(key);
    return found == metadata_.end() ? nullptr : &found->second;
  }

  const Metadata& metadata_;
  const Source& source_;
};

using Numbers = std::vector<double>;

bool are_three(const Numbers& values) {
  return values.size() == 3 &&
         std::all_of(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
}

bool are_three_positive(const Numbers& values) {
  return are_three(values) &&
         std::all_of(values.begin(), values.end(), [](double x) { return x > 0; });
}

void read_three(const Reader& reader, const char* key, std::array<double, 3>& values,
                bool (*are_right)(const Numbers&)) {
  Numbers numbers(values.begin(), values.end());
  reader.read(key, numbers, "three numbers, such as [0.5, 0.5, 0.5]", are_right);
  std::copy(numbers.begin(), numbers.end(), values.begin());
}

}  // namespace

Metadata metadata_of(const Card& card) {
  Metadata metadata{{"mala.crop", json(card.crop).dump()},
                    {"mala.mean", json(card.mean).dump()},
                    {"mala.std", json(card.deviation).dump()}};
  if (!card.model.empty()) metadata["mala.model"] = card.model;
  if (!card.mixers.empty()) metadata["mala.mixers"] = card.mixers;
  if (card.image_size > 0) metadata["mala.image_size"] = json(card.image_size).dump();
  if (!card.labels.empty()) metadata["mala.labels"] = json(card.labels).dump();
  return metadata;
}

Card read_card(const Metadata& metadata, const Source& source) {
  const Reader reader(metadata, source);
  Card card;
  reader.read("mala.model", card.model);
  reader.read("mala.mixers", card.mixers);
  double size = 0;  // a whole number may be written as 1e300
  reader.read("mala.image_size", size, "a number of pixels up to 10000",
              [](double x) { return x >= 1 && x <= kLargestSide && x == std::floor(x); });
  card.image_size = static_cast<int64_t>(size);
  reader.read("mala.crop", card.crop, "a share from 0.1 to 1",
              [](double crop) { return crop >= 0.1 && crop <= 1; });
  read_three(reader, "mala.mean", card.mean, are_three);
  read_three(reader, "mala.std", card.deviation, are_three_positive);
  reader.read("mala.labels", card.labels, "a list of texts", [](const auto&) { return true; });
  return card;
}

}  // namespace mala::models
