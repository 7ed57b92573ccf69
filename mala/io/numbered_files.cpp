// Files with a step in their name.
#include "mala/io/numbered_files.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "mala/core/output_file.h"
#include "mala/core/source.h"

namespace mala::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kBefore = "step_", kAfter = ".safetensors";

int64_t number_of(std::string_view name) {
  if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) return -1;
  name.remove_prefix(kBefore.size());
  name.remove_suffix(kAfter.size());
  int64_t number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? number : -1;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  const Source source{"checkpoints", folder};
  source.check(!error, "cannot be listed: ", error.message());
  return names;
}

// What cannot be removed costs room, and is no reason to stop.
void remove_quietly(const std::string& path) {
  std::error_code error;
  fs::remove(path, error);
}

}  // namespace

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  const Source source{"make_folder", folder};
  source.check(!error && fs::is_directory(folder, error), "cannot be made a folder: ",
               error ? error.message() : "something else has this name",
               "; choose another or mend its permissions");
}

NumberedFiles::NumberedFiles(const std::string& folder) : folder_(folder) { make_folder(folder); }

std::string NumberedFiles::path_of(int64_t number) const {
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%010lld", static_cast<long long>(number));
  return str(folder_, "/", kBefore, digits, kAfter);
}

std::vector<int64_t> NumberedFiles::numbers() const {
  std::vector<int64_t> all;
  for (const std::string& name : names_in(folder_)) {
    if (const int64_t number = number_of(name); number >= 0) all.push_back(number);
  }
  std::sort(all.begin(), all.end());
  return all;
}

void NumberedFiles::keep_last(int64_t count) const {
  const std::vector<int64_t> all = numbers();
  for (size_t i = 0; i + static_cast<size_t>(count) < all.size(); ++i) {
    remove_quietly(path_of(all[i]));
  }
}

void NumberedFiles::remove_parts() const { mala::remove_parts(folder_, std::string(kBefore)); }

}  // namespace mala::io
