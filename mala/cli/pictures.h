// The pictures that a command line names: files, folders, patterns and stdin.
#pragma once

#include <string>
#include <vector>

#include "mala/data/batches.h"
#include "mala/data/dataset/image_files.h"

namespace mala::cli {

// Pictures in the order of the command line.
class Pictures final : public data::ImageSource {
 public:
  // What names no picture, such as an empty folder, is left out and told in problems(). "-" is
  // stdin: one picture where it begins like one, else names, one a line.
  explicit Pictures(const std::vector<std::string>& names);

  const std::vector<std::string>& problems() const { return problems_; }

  int64_t size() const override { return files_.size(); }
  int64_t label(int64_t) const override { return 0; }
  std::string name(int64_t index) const override { return files_.name(index); }
  const std::vector<std::string>& classes() const override { return files_.classes(); }
  using ImageSource::read;
  data::Image read(int64_t index, const data::ChooseRegion& choose) const override;

 private:
  std::string from_stdin_;  // the bytes of a picture
  std::vector<std::string> problems_;
  data::ImageFiles files_;
};

}  // namespace mala::cli
