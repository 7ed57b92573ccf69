// Write, flush to the disk, rename: whoever reads the path finds the old file or the new one.
#include "mala/core/output_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

namespace mala {
namespace {

constexpr const char* kPart = ".part-";  // of the names of files that are not whole yet

// The new name reaches the disk with its folder. Where that cannot be asked for, the system does it
// in its own time.
void flush_folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == path.npos ? "." : path.substr(0, slash + 1);
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  fsync(descriptor);
  close(descriptor);
}

}  // namespace

OutputFile::OutputFile(const Source& source) : source_(source) {
  // Several writers may be at it at once, in this process or others: each takes a name of its own.
  for (int attempt = 0; attempt < 1000 && descriptor_ < 0; ++attempt) {
    beside_ = str(source.name, kPart, getpid(), "-", attempt);
    descriptor_ = open(beside_.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  source_.check(descriptor_ >= 0, "cannot be written: ", std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(beside_.c_str());
}

void OutputFile::write(Bytes bytes) {
  constexpr size_t kMostAtOnce = size_t{1} << 30;  // the system takes at most 2 GB a call
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMostAtOnce));
    if (written < 0 && errno == EINTR) continue;
    source_.check(written >= 0, "cannot be written: ", std::strerror(errno));
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void OutputFile::commit() {
  source_.check(fsync(descriptor_) == 0, "cannot be written: ", std::strerror(errno));
  source_.check(std::rename(beside_.c_str(), source_.name.c_str()) == 0,
                "cannot be put in place: ", std::strerror(errno));
  close(descriptor_);
  descriptor_ = -1;
  flush_folder_of(source_.name);
}

void remove_parts(const std::string& folder, const std::string& names) {
  namespace fs = std::filesystem;
  // What cannot be listed or removed costs room, and is no reason to stop.
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(names) && name.find(kPart) != name.npos) found.push_back(at->path());
  }
  for (const fs::path& one : found) fs::remove(one, error);
}

}  // namespace mala
