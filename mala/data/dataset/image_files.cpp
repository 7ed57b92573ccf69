// Reads the chosen part of a file.
#include "mala/data/dataset/image_files.h"

#include <algorithm>

#include "mala/core/mapped_file.h"
#include "mala/data/image/decode.h"

namespace mala::data {

Image ImageFiles::read(int64_t index, const ChooseRegion& choose) const {
  const std::string& path = files_[static_cast<size_t>(index)].path;
  const MappedFile file(Source{"read_image", path});
  return decode_region(file.bytes(), path, choose);
}

bool is_picture_name(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return false;
  std::string ending(name.substr(dot + 1));
  for (char& c : ending) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  constexpr std::string_view kEndings[] = {"jpg", "jpeg", "png", "webp", "ppm", "pgm"};
  return std::ranges::find(kEndings, ending) != std::end(kEndings);
}

}  // namespace mala::data
