// One function for each kind of source; private to this folder and its tests.
#pragma once

#include "mala/data/dataset/open.h"

namespace mala::data {

std::unique_ptr<ImageSource> open_folder(const std::string& path, const SourceOptions& options);
std::unique_ptr<ImageSource> open_list(const std::string& path, const SourceOptions& options);

// `name` is what the user called them, for messages about all.
std::unique_ptr<ImageSource> open_shards(const std::string& name,
                                         const std::vector<std::string>& paths,
                                         const SourceOptions& options);

}  // namespace mala::data
