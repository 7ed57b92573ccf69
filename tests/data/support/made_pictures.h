// Pictures made from numbers, for tests that need many and no files.
#pragma once

#include <atomic>
#include <set>

#include "mala/core/error.h"
#include "mala/data/dataset/image_source.h"
#include "mala/data/random.h"

namespace mala::test {

// Noise that differs from number to number.
inline data::Image made_picture(int64_t number, data::Size size) {
  data::Image image(size);
  data::Random random(7, number, data::Use::kPicture);
  for (uint8_t& level : image.pixels) level = static_cast<uint8_t>(random.bits() >> 24);
  return image;
}

class MadePictures final : public data::ImageSource {
 public:
  MadePictures(int64_t count, data::Size size, std::set<int64_t> broken = {})
      : count_(count), size_(size), broken_(std::move(broken)) {}

  int64_t size() const override { return count_; }
  int64_t label(int64_t index) const override { return index % 3; }
  std::string name(int64_t index) const override { return str("picture ", index); }
  const std::vector<std::string>& classes() const override { return classes_; }
  using data::ImageSource::read;
  data::Image read(int64_t index, const data::ChooseRegion& choose) const override {
    ++reads;
    check(!broken_.contains(index), "read_image", name(index), ": is broken");
    return data::crop(made_picture(index, size_), choose(size_));
  }

  mutable std::atomic<int64_t> reads = 0;

 private:
  int64_t count_;
  data::Size size_;
  std::set<int64_t> broken_;
  std::vector<std::string> classes_{"a", "b", "c"};
};

}  // namespace mala::test
