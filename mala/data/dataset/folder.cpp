// A folder for each class, pictures anywhere below it.
#include <algorithm>
#include <filesystem>

#include "mala/core/source.h"
#include "mala/data/dataset/image_files.h"
#include "mala/data/dataset/kinds.h"
#include "mala/data/image/find.h"

namespace mala::data {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

struct Contents {
  std::vector<std::string> folders;
  int64_t pictures = 0;
};

Contents list(const std::string& path, const Source& source) {
  Contents contents;
  std::error_code error;
  fs::directory_iterator entry(path, error);
  source.check(!error, "cannot be listed: ", error.message());
  for (; entry != fs::directory_iterator(); entry.increment(error)) {
    if (is_hidden(entry->path())) continue;
    std::error_code ignored;  // a broken link is neither
    if (entry->is_directory(ignored)) contents.folders.push_back(entry->path().filename().string());
    if (is_picture_name(entry->path().filename().string())) ++contents.pictures;
  }
  source.check(!error, "cannot be listed: ", error.message());
  std::ranges::sort(contents.folders);
  return contents;
}

// Where the user named the folder above the set, the folders are its parts and not classes.
void check_is_no_parent(const Contents& contents, const Source& source) {
  constexpr std::string_view kParts[] = {"test", "train", "training", "val", "valid", "validation"};
  const bool all_parts =
      !contents.folders.empty() && std::ranges::all_of(contents.folders, [&](const auto& name) {
        return std::ranges::find(kParts, name) != std::end(kParts);
      });
  source.check(!all_parts, "has the folders of a whole set; name one of them, such as ",
               source.name, "/", all_parts ? contents.folders.back() : "");
}

}  // namespace

std::unique_ptr<ImageSource> open_folder(const std::string& path, const SourceOptions& options) {
  const Source source{"open_images", path};
  const Contents contents = list(path, source);
  check_is_no_parent(contents, source);
  source.check(
      !contents.folders.empty(), "has ", contents.pictures,
      " pictures and no folders; it needs a folder for each class, with the pictures in it");
  const std::vector<std::string>& classes =
      options.classes.empty() ? contents.folders : options.classes;
  std::vector<LabelledFile> files;
  for (const std::string& name : contents.folders) {
    const auto found = std::ranges::find(classes, name);
    source.check(found != classes.end(), "has a folder ", in_quotes(name),
                 ", which is none of the ", classes.size(), " classes");
    const FoundPictures found_here = pictures_below((fs::path(path) / name).string());
    source.check(found_here.is_whole, found_here.problem);
    const std::vector<std::string>& pictures = found_here.paths;
    source.check(!pictures.empty() || !options.classes.empty(), "the folder of class ",
                 in_quotes(name), " has no pictures (.jpg, .png, .webp, .ppm); fill or remove it");
    for (const std::string& picture : pictures) files.push_back({picture, found - classes.begin()});
  }
  source.check(!files.empty(), "has no pictures (.jpg, .png, .webp, .ppm) in its ",
               contents.folders.size(), " folders");
  return std::make_unique<ImageFiles>(std::move(files), classes);
}

}  // namespace mala::data
