// Lists folders and patterns.
#include "mala/data/image/find.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "mala/data/dataset/image_files.h"

namespace mala::data {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

// What the pattern fits, sorted. A folder that cannot be listed has nothing that fits.
std::vector<std::string> fitting(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> names;
  if (glob(pattern.c_str(), GLOB_TILDE, nullptr, &found) == 0) {
    names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return names;
}

FoundPictures find_fitting(const std::string& pattern) {
  FoundPictures all;
  for (const std::string& name : fitting(pattern)) {
    std::error_code ignored;
    if (!fs::is_directory(name, ignored)) {
      all.paths.push_back(name);
      continue;
    }
    const FoundPictures inside = pictures_below(name);
    all.paths.insert(all.paths.end(), inside.paths.begin(), inside.paths.end());
    if (!inside.problem.empty()) all.problem = inside.problem;
  }
  if (all.paths.empty() && all.problem.empty()) all.problem = pattern + ": no file fits this";
  return all;
}

}  // namespace

FoundPictures pictures_below(const std::string& folder) {
  FoundPictures found;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    if (is_picture_name(entry->path().filename().string()) && !entry->is_directory(ignored)) {
      found.paths.push_back(entry->path().string());
    }
  }
  std::ranges::sort(found.paths);
  if (error) {
    found.problem = folder + ": cannot be listed: " + error.message();
    found.is_whole = false;
  } else if (found.paths.empty()) {
    found.problem = folder + ": has no pictures; their names end with .jpg, .png, .webp or .ppm";
  }
  return found;
}

FoundPictures find_pictures(const std::string& name) {
  std::error_code ignored;
  if (fs::is_directory(name, ignored)) return pictures_below(name);
  const bool is_pattern = name.find_first_of("*?[") != std::string::npos;
  if (is_pattern && !fs::exists(name, ignored)) return find_fitting(name);
  return {.paths = {name}, .problem = {}, .is_whole = true};
}

}  // namespace mala::data
