// Writes at the end, whoever else does so.
#include "mala/core/append_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mala {

AppendFile::AppendFile(const Source& source) : source_(source) {
  descriptor_ = open(source.name.c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0666);
  source_.check(descriptor_ >= 0, "cannot be written: ", std::strerror(errno));
}

AppendFile::~AppendFile() { close(descriptor_); }

void AppendFile::append(Bytes bytes) {
  ssize_t written = -1;
  do {
    written = ::write(descriptor_, bytes.data(), bytes.size());
  } while (written < 0 && errno == EINTR);
  source_.check(written >= 0, "cannot be written: ", std::strerror(errno));
  source_.check(static_cast<size_t>(written) == bytes.size(), "took ", written, " of ",
                bytes.size(), " bytes; is the disk full?");
}

}  // namespace mala
