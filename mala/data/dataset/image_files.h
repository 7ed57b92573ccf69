// Pictures that are files of their own.
#pragma once

#include "mala/data/dataset/image_source.h"

namespace mala::data {

struct LabelledFile {
  std::string path;
  int64_t label = 0;
};

class ImageFiles final : public ImageSource {
 public:
  ImageFiles(std::vector<LabelledFile> files, std::vector<std::string> classes)
      : files_(std::move(files)), classes_(std::move(classes)) {}

  int64_t size() const override { return std::ssize(files_); }
  int64_t label(int64_t index) const override { return files_[static_cast<size_t>(index)].label; }
  std::string name(int64_t index) const override { return files_[static_cast<size_t>(index)].path; }
  const std::vector<std::string>& classes() const override { return classes_; }
  using ImageSource::read;
  Image read(int64_t index, const ChooseRegion& choose) const override;

 private:
  std::vector<LabelledFile> files_;
  std::vector<std::string> classes_;
};

// Whether the name ends as those of pictures do: .jpg, .jpeg, .png, .webp, .ppm or .pgm.
bool is_picture_name(std::string_view name);

}  // namespace mala::data
