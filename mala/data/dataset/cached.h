// A source that keeps decoded pictures in memory, for sets that fit into it.
#pragma once

#include <memory>
#include <mutex>

#include "mala/data/dataset/image_source.h"

namespace mala::data {

// Whole pictures are kept as they are first read, until `most_bytes` of them are; the others are
// read from `source` each time.
class CachedImages final : public ImageSource {
 public:
  CachedImages(std::unique_ptr<ImageSource> source, int64_t most_bytes);

  int64_t size() const override { return source_->size(); }
  int64_t label(int64_t index) const override { return source_->label(index); }
  std::string name(int64_t index) const override { return source_->name(index); }
  const std::vector<std::string>& classes() const override { return source_->classes(); }
  using ImageSource::read;
  Image read(int64_t index, const ChooseRegion& choose) const override;

  int64_t kept_bytes() const;

 private:
  std::shared_ptr<const Image> find(int64_t index) const;
  void keep(int64_t index, std::shared_ptr<const Image> image) const;

  std::unique_ptr<ImageSource> source_;
  int64_t most_bytes_;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const Image>> kept_;
  mutable int64_t kept_bytes_ = 0;
  mutable bool full_ = false;
};

}  // namespace mala::data
