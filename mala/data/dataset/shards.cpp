// Pictures within tar archives: KEY.jpg beside KEY.cls, or CLASS/NAME.jpg.
#include <algorithm>
#include <map>

#include "mala/core/mapped_file.h"
#include "mala/data/dataset/image_files.h"
#include "mala/data/dataset/kinds.h"
#include "mala/data/dataset/labels.h"
#include "mala/data/dataset/tar.h"
#include "mala/data/image/decode.h"

namespace mala::data {
namespace {

struct Picture {
  size_t shard;
  std::string name;
  Bytes bytes;
};

class Shards final : public ImageSource {
 public:
  std::vector<std::string> paths;
  std::vector<std::unique_ptr<MappedFile>> files;
  std::vector<Picture> pictures;
  Labels labels;

  int64_t size() const override { return std::ssize(pictures); }
  int64_t label(int64_t index) const override { return labels.values[static_cast<size_t>(index)]; }
  std::string name(int64_t index) const override {
    const Picture& picture = pictures[static_cast<size_t>(index)];
    return str(paths[picture.shard], ":", picture.name);
  }
  const std::vector<std::string>& classes() const override { return labels.classes; }
  using ImageSource::read;
  Image read(int64_t index, const ChooseRegion& choose) const override {
    return decode_region(pictures[static_cast<size_t>(index)].bytes, name(index), choose);
  }
};

std::string_view folder_of(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : name.substr(0, slash);
}

std::string_view last_part(std::string_view name) { return name.substr(name.rfind('/') + 1); }

// All that is before the first dot of the file's name, as WebDataset has it.
std::string key_of(std::string_view name) {
  const size_t dot = last_part(name).find('.');
  const size_t ending = last_part(name).size() - std::min(dot, last_part(name).size());
  return std::string(name.substr(0, name.size() - ending));
}

bool is_hidden(std::string_view name) { return last_part(name).starts_with('.'); }

// What a .cls file says: a number, perhaps with a line end.
std::string label_in(const TarEntry& entry, const Source& source) {
  constexpr size_t kLongest = 256;
  source.check(entry.bytes.size() <= kLongest, in_quotes(entry.name), " has ", entry.bytes.size(),
               " bytes, needs a label of ", kLongest, " at most");
  const std::string_view text = text_of(entry.bytes);
  const size_t first = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  const size_t last = text.find_last_not_of(" \t\r\n");
  return std::string(text.substr(first, last - first + 1));
}

// Adds the pictures of one archive, with a text for each label.
void add_shard(Shards& shards, const std::string& path, std::vector<std::string>& texts) {
  const Source source{"open_images", path};
  shards.paths.push_back(path);
  shards.files.push_back(std::make_unique<MappedFile>(source));
  const std::vector<TarEntry> entries = read_tar(shards.files.back()->bytes(), source);
  std::map<std::string, std::string> by_key;
  for (const TarEntry& entry : entries) {
    if (entry.name.ends_with(".cls")) by_key[key_of(entry.name)] = label_in(entry, source);
  }
  for (const TarEntry& entry : entries) {
    if (!is_picture_name(entry.name) || is_hidden(entry.name)) continue;
    const auto beside = by_key.find(key_of(entry.name));
    const std::string folder(last_part(folder_of(entry.name)));
    source.check(beside != by_key.end() || by_key.empty(), in_quotes(entry.name),
                 " has no label; the archive has .cls files, so it needs ",
                 in_quotes(key_of(entry.name) + ".cls"));
    source.check(!by_key.empty() || !(folder.empty() || folder == "."), in_quotes(entry.name),
                 " has no label; it needs ", in_quotes(key_of(entry.name) + ".cls"),
                 " beside it or to lie in a folder named after its class");
    texts.push_back(by_key.empty() ? folder : beside->second);
    shards.pictures.push_back({shards.paths.size() - 1, entry.name, entry.bytes});
  }
}

}  // namespace

std::unique_ptr<ImageSource> open_shards(const std::string& name,
                                         const std::vector<std::string>& paths,
                                         const SourceOptions& options) {
  auto shards = std::make_unique<Shards>();
  std::vector<std::string> texts;
  for (const std::string& path : paths) add_shard(*shards, path, texts);
  const Source source{"open_images", name};
  source.check(!texts.empty(), "has no pictures (.jpg, .png, .webp, .ppm) in ", paths.size(),
               paths.size() == 1 ? " archive" : " archives");
  const auto place_of = [&](size_t i) { return shards->name(static_cast<int64_t>(i)); };
  shards->labels = resolve_labels(source, texts, place_of, options.classes);
  return shards;
}

}  // namespace mala::data
