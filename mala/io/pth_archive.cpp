// Opens checkpoints, and tells what else a file may be.
#include "mala/io/pth_archive.h"

namespace mala::io {
namespace {

constexpr std::string_view kPickle = "data.pkl";

// torch before 1.6, and later when asked, wrote pickles one behind the other.
bool looks_legacy(Bytes bytes) {
  return text_of(bytes).starts_with(std::string_view("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9", 9));
}

void check_kind(Bytes bytes, const Source& source) {
  source.check(!bytes.empty(), "is empty");
  source.check(!looks_legacy(bytes),
               "is in torch's format from before version 1.6, which is not read; in Python:"
               " torch.save(torch.load(name, weights_only=True), name)");
  source.check(!text_of(bytes).starts_with("version https://git-lfs"),
               "is a pointer of Git LFS and not the file itself; run git lfs pull");
  source.check(looks_like_zip(bytes),
               "is no checkpoint of torch.save: it does not begin as a zip file does");
}

// The folder within the zip that has the pickle; torch names it after the file.
std::string find_folder(const ZipEntries& entries, const Source& source) {
  std::string folder;
  bool found = false;
  for (const auto& [name, entry] : entries) {
    if (name != kPickle && !name.ends_with("/data.pkl")) continue;
    source.check(!found, "has two pickles, ", in_quotes(name),
                 " is the second; it is no checkpoint");
    folder = name.substr(0, name.size() - kPickle.size());
    found = true;
  }
  source.check(found, "is a zip file without data.pkl, so no checkpoint of torch.save");
  return folder;
}

}  // namespace

PthArchive::PthArchive(Bytes bytes, const Source& source) : source_(source) {
  check_kind(bytes, source);
  entries_ = read_zip(bytes, source);
  folder_ = find_folder(entries_, source);
  source.check(!entries_.contains(folder_ + "constants.pkl"),
               "is a TorchScript program; save its weights: torch.save(torch.jit.load(name)"
               ".state_dict(), other_name)");
  const auto order = entries_.find(folder_ + "byteorder");
  source.check(order == entries_.end() || text_of(order->second.bytes) == "little",
               "was written on a machine whose highest bytes come first, which is not read;"
               " save it anew on this one");
}

const ZipEntry& PthArchive::entry(const std::string& name) const {
  const auto found = entries_.find(name);
  source_.check(found != entries_.end(), "lacks its entry ", in_quotes(name), "; it is damaged");
  return found->second;
}

Pickle PthArchive::pickle() const {
  const std::string name = folder_ + std::string(kPickle);
  return read_pickle(contents(name, entry(name), source_), source_);
}

Bytes PthArchive::storage(std::string_view key) {
  const auto known = checked_.find(key);
  if (known != checked_.end()) return known->second;
  const std::string name = folder_ + "data/" + std::string(key);
  return checked_.emplace(key, contents(name, entry(name), source_)).first->second;
}

}  // namespace mala::io
