// The lock is held for a look-up alone; decoding and cropping go on side by side.
#include "mala/data/dataset/cached.h"

namespace mala::data {

CachedImages::CachedImages(std::unique_ptr<ImageSource> source, int64_t most_bytes)
    : source_(std::move(source)),
      most_bytes_(most_bytes),
      kept_(static_cast<size_t>(source_->size())) {}

std::shared_ptr<const Image> CachedImages::find(int64_t index) const {
  const std::lock_guard lock(mutex_);
  return kept_[static_cast<size_t>(index)];
}

void CachedImages::keep(int64_t index, std::shared_ptr<const Image> image) const {
  const int64_t bytes = std::ssize(image->pixels);
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Image>& place = kept_[static_cast<size_t>(index)];
  if (place) return;  // somebody else read it meanwhile
  full_ = full_ || kept_bytes_ + bytes > most_bytes_;
  if (full_) return;
  kept_bytes_ += bytes;
  place = std::move(image);
}

Image CachedImages::read(int64_t index, const ChooseRegion& choose) const {
  std::shared_ptr<const Image> image = find(index);
  if (!image) {
    const bool full = (std::lock_guard(mutex_), full_);
    if (full) return source_->read(index, choose);
    image = std::make_shared<Image>(source_->read(index));
    keep(index, image);
  }
  return crop(*image, choose(image->size));
}

int64_t CachedImages::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_bytes_;
}

}  // namespace mala::data
