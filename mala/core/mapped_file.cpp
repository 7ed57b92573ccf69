// mmap, with an error for everything that can go wrong.
#include "mala/core/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace mala {
namespace {

// Closes when it goes: a mapping outlives its descriptor.
struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) close(number);
  }
};

size_t size_of(const Descriptor& file, const Source& source) {
  struct stat facts {};
  source.check(fstat(file.number, &facts) == 0, "cannot be read: ", std::strerror(errno));
  source.check(!S_ISDIR(facts.st_mode), "is a folder; name a file in it");
  source.check(S_ISREG(facts.st_mode), "is not a plain file; copy it to one first");
  return static_cast<size_t>(facts.st_size);
}

}  // namespace

MappedFile::MappedFile(const Source& source) {
  const Descriptor file{open(source.name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  source.check(file.number >= 0, "cannot be opened: ", std::strerror(errno));
  size_ = size_of(file, source);
  if (size_ == 0) return;  // mmap refuses nothing at all
  void* const data = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.number, 0);
  source.check(data != MAP_FAILED, "cannot be mapped: ", std::strerror(errno));
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  if (size_ > 0) munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace mala
