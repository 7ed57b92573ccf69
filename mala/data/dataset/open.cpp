// Tells the kinds of sources apart.
#include "mala/data/dataset/open.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "mala/core/source.h"
#include "mala/data/dataset/cached.h"
#include "mala/data/dataset/kinds.h"

namespace mala::data {
namespace {

namespace fs = std::filesystem;

bool is_tar_name(const std::string& name) { return name.ends_with(".tar"); }

// Sorted, so that shards come in the same order everywhere.
std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

// None where there are folders as well: those are the classes.
std::vector<std::string> tars_in(const std::string& folder, const Source& source) {
  std::vector<std::string> tars;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  source.check(!error, "cannot be listed: ", error.message());
  for (; entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;  // a broken link is neither
    if (!name.starts_with('.') && entry->is_directory(ignored)) return {};
    if (is_tar_name(name)) tars.push_back(entry->path().string());
  }
  source.check(!error, "cannot be listed: ", error.message());
  std::ranges::sort(tars);
  return tars;
}

std::unique_ptr<ImageSource> open_kind(const std::string& path, const SourceOptions& options) {
  const Source source{"open_images", path};
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    const std::vector<std::string> matches = matches_of(path);
    source.check(!matches.empty(), "is neither a file nor a folder, nor a pattern that finds any");
    return open_shards(path, matches, options);
  }
  if (!fs::is_directory(status)) {
    return is_tar_name(path) ? open_shards(path, {path}, options) : open_list(path, options);
  }
  const std::vector<std::string> tars = tars_in(path, source);
  return tars.empty() ? open_folder(path, options) : open_shards(path, tars, options);
}

}  // namespace

std::unique_ptr<ImageSource> open_images(const std::string& path, const SourceOptions& options) {
  check(options.cache_bytes >= 0, "open_images", "cache_bytes is ", options.cache_bytes,
        ", needs 0 (none) or more");
  std::unique_ptr<ImageSource> source = open_kind(path, options);
  if (options.cache_bytes == 0) return source;
  return std::make_unique<CachedImages>(std::move(source), options.cache_bytes);
}

}  // namespace mala::data
