// Labelled pictures by number: where they lie is the business of each kind of source.
#pragma once

#include <string>
#include <vector>

#include "mala/data/image/image.h"
#include "mala/data/image/region.h"

namespace mala::data {

// Nothing changes once a source is made, so several threads may read at once.
class ImageSource {
 public:
  ImageSource() = default;
  virtual ~ImageSource() = default;
  ImageSource(const ImageSource&) = delete;
  ImageSource& operator=(const ImageSource&) = delete;

  virtual int64_t size() const = 0;
  virtual int64_t label(int64_t index) const = 0;     // 0 to classes().size() - 1
  virtual std::string name(int64_t index) const = 0;  // the file, for messages
  virtual const std::vector<std::string>& classes() const = 0;

  // The chosen part of the picture; a JPEG's other parts are not worked out. Throws mala::Error
  // that names the file when it is broken.
  virtual Image read(int64_t index, const ChooseRegion& choose) const = 0;

  Image read(int64_t index) const { return read(index, whole); }
};

}  // namespace mala::data
