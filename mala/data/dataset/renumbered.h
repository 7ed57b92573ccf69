// Another numbering of a source's pictures: some of them, or some more than once.
#pragma once

#include <functional>

#include "mala/data/dataset/image_source.h"

namespace mala::data {

// `source` stays with the caller and outlives this; `number_of` gives its number for each of ours.
class Renumbered final : public ImageSource {
 public:
  using NumberOf = std::function<int64_t(int64_t)>;

  Renumbered(const ImageSource& source, int64_t count, NumberOf number_of)
      : source_(source), count_(count), number_of_(std::move(number_of)) {}

  int64_t size() const override { return count_; }
  int64_t label(int64_t index) const override { return source_.label(number_of_(index)); }
  std::string name(int64_t index) const override { return source_.name(number_of_(index)); }
  const std::vector<std::string>& classes() const override { return source_.classes(); }
  using ImageSource::read;
  Image read(int64_t index, const ChooseRegion& choose) const override {
    return source_.read(number_of_(index), choose);
  }

 private:
  const ImageSource& source_;
  int64_t count_;
  NumberOf number_of_;
};

}  // namespace mala::data
