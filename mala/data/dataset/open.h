// A source of pictures from whatever a user names.
#pragma once

#include <memory>

#include "mala/data/dataset/image_source.h"

namespace mala::data {

struct SourceOptions {
  // Names by label, where a list or shards have numbers, or where another set decides their order
  // (a test set takes those of its training set). Empty: as the set itself says.
  std::vector<std::string> classes{};
  // Decoded pictures are kept in memory up to this: small ones are read over and over.
  int64_t cache_bytes = 0;
};

// What `path` may be:
//   * a folder with a folder for each class, CLASS/.../NAME.jpg; classes in the order of their
//   names
//   * a text file with a path and a label on each line
//   * a .tar file, a folder of them, or a pattern such as shards/train-*.tar
// docs/data.md says more of each. Throws mala::Error that names the path when there is no picture.
std::unique_ptr<ImageSource> open_images(const std::string& path,
                                         const SourceOptions& options = {});

}  // namespace mala::data
