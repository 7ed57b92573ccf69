// Expands what the command line names.
#include "mala/cli/pictures.h"

#include <array>
#include <cstdio>

#include "mala/core/bytes.h"
#include "mala/core/error.h"
#include "mala/data/image/decode.h"
#include "mala/data/image/find.h"

namespace mala::cli {
namespace {

constexpr const char* kStdin = "-";

std::string read_stdin() {
  constexpr size_t kMostBytes = size_t{1} << 30;
  std::string text;
  std::array<char, 1 << 16> part;
  while (const size_t count = std::fread(part.data(), 1, part.size(), stdin)) {
    text.append(part.data(), count);
    check(text.size() <= kMostBytes, "stdin", "more than 1 GB, which is no picture; give names");
  }
  check(std::ferror(stdin) == 0, "stdin", "cannot be read");
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(line);
    begin = end + 1;
  }
  return lines;
}

void add_found(const std::string& name, std::vector<data::LabelledFile>& files,
               std::vector<std::string>& problems) {
  const data::FoundPictures found = data::find_pictures(name);
  for (const std::string& path : found.paths) files.push_back({path, 0});
  if (!found.problem.empty()) problems.push_back(found.problem);
}

// Names that stdin brings stand where "-" stood. The bytes of a picture go to `picture`.
std::vector<data::LabelledFile> expand(const std::vector<std::string>& names,
                                       std::vector<std::string>& problems, std::string& picture) {
  std::vector<data::LabelledFile> files;
  bool is_read = false;
  for (const std::string& name : names) {
    if (name != kStdin) {
      add_found(name, files, problems);
      continue;
    }
    check(!is_read, "stdin", "'-' came twice; it can be read once");
    is_read = true;
    picture = read_stdin();
    if (data::looks_like_picture(bytes_of_text(picture))) {
      files.push_back({kStdin, 0});
      continue;
    }
    const std::vector<std::string> lines = lines_of(picture);
    picture.clear();
    if (lines.empty()) problems.emplace_back("-: stdin has neither a picture nor names");
    for (const std::string& line : lines) add_found(line, files, problems);
  }
  return files;
}

}  // namespace

Pictures::Pictures(const std::vector<std::string>& names)
    : files_(expand(names, problems_, from_stdin_), {""}) {}

data::Image Pictures::read(int64_t index, const data::ChooseRegion& choose) const {
  if (name(index) != kStdin || from_stdin_.empty()) return files_.read(index, choose);
  return data::decode_region(bytes_of_text(from_stdin_), kStdin, choose);
}

}  // namespace mala::cli
