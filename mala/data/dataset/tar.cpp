// Headers of 512 bytes, each before its file. Every number in them is a claim to be checked.
#include "mala/data/dataset/tar.h"

#include <charconv>
#include <optional>

namespace mala::data {
namespace {

constexpr uint64_t kBlock = 512;
constexpr uint64_t kLongestName = 4096;
constexpr uint64_t kLongestRecords = 1 << 20;  // of a pax header

struct Field {
  size_t offset, size;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kType{156, 1}, kMagic{257, 5},
    kPrefix{345, 155};

std::string_view field(Bytes header, Field which) {
  const std::string_view text = text_of(header.subspan(which.offset, which.size));
  return text.substr(0, text.find('\0'));
}

std::optional<uint64_t> octal(std::string_view text) {
  const size_t first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return std::nullopt;
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + first, end, number, 8);
  const bool only_blanks = std::string_view(stop, end).find_first_not_of(' ') == std::string::npos;
  if (error != std::errc{} || !only_blanks) return std::nullopt;
  return number;
}

// Octal digits or, for files of 8 GB and more, bytes behind a first bit.
std::optional<uint64_t> file_size(Bytes header) {
  const Bytes bytes = header.subspan(kSize.offset, kSize.size);
  if (static_cast<uint8_t>(bytes[0]) != 0x80) return octal(field(header, kSize));
  for (size_t i = 1; i < 4; ++i) {
    if (bytes[i] != std::byte{0}) return std::nullopt;
  }
  return load_be<uint64_t>(bytes, 4);
}

// All bytes added up, those of the checksum itself as blanks.
bool has_right_checksum(Bytes header) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kChecksum.offset && i < kChecksum.offset + kChecksum.size;
    sum += own ? ' ' : static_cast<uint8_t>(header[i]);
  }
  return octal(field(header, kChecksum)) == sum;
}

bool is_zero(Bytes block) {
  return text_of(block).find_first_not_of('\0') == std::string_view::npos;
}

std::string name_of(Bytes header) {
  const std::string name(field(header, kName));
  if (field(header, kMagic) != "ustar") return name;
  // GNU's own form has other things where POSIX has the prefix.
  const bool is_gnu = text_of(header.subspan(kMagic.offset, 8)) == std::string_view("ustar  ", 8);
  const std::string_view prefix = is_gnu ? "" : field(header, kPrefix);
  return prefix.empty() ? name : str(prefix, "/", name);
}

// What headers before a file say about it.
struct Overrides {
  std::string name;
  std::optional<uint64_t> size;
};

// Records "LENGTH key=value\n".
void read_pax(std::string_view text, const Source& source, Overrides& overrides) {
  while (!text.empty()) {
    uint64_t length = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), length);
    const auto digits = static_cast<uint64_t>(stop - text.data());
    source.check(error == std::errc{} && length <= text.size() && length > digits + 2 &&
                     *stop == ' ' && text[length - 1] == '\n',
                 "is damaged: a record of a pax header is ", in_quotes(text));
    const std::string_view record = text.substr(digits + 1, length - digits - 2);
    text.remove_prefix(length);
    const size_t equals = std::min(record.find('='), record.size() - 1);
    const std::string_view key = record.substr(0, equals), value = record.substr(equals + 1);
    if (key == "path") overrides.name = value;
    if (key == "size") {
      uint64_t size = 0;
      const char* const end = value.data() + value.size();
      const auto read = std::from_chars(value.data(), end, size);
      source.check(read.ec == std::errc{} && read.ptr == end, "is damaged: a size is ",
                   in_quotes(value));
      overrides.size = size;
    }
  }
}

class TarReader {
 public:
  TarReader(Bytes archive, const Source& source) : archive_(archive), source_(source) {}

  std::vector<TarEntry> read() {
    check_kind();
    while (true) {
      source_.check(fits(at_, kBlock, archive_.size()),
                    "is cut short: it ends without the mark of its end");
      const Bytes header = archive_.subspan(at_, kBlock);
      if (is_zero(header)) return std::move(entries_);
      source_.check(has_right_checksum(header), "is damaged: the header at byte ", at_,
                    " has a wrong checksum");
      read_entry(header);
    }
  }

 private:
  void check_kind() const {
    const std::string_view text = text_of(archive_);
    source_.check(!text.empty(), "is empty");
    source_.check(!text.starts_with("\x1F\x8B") && !text.starts_with("BZh") &&
                      !text.starts_with("\xFD"
                                        "7zXZ") &&
                      !text.starts_with("\x28\xB5\x2F\xFD"),
                  "is compressed; unpack it to a plain .tar first (pictures do not shrink)");
  }

  void read_entry(Bytes header) {
    const char type = text_of(header)[kType.offset];
    std::optional<uint64_t> size = file_size(header);
    const bool is_file = type == '0' || type == '\0' || type == '7';
    if (is_file && overrides_.size) size = overrides_.size;
    const std::string name = overrides_.name.empty() ? name_of(header) : overrides_.name;
    source_.check(size.has_value(), "is damaged: the size of ", in_quotes(name), " is no number");
    at_ += kBlock;
    source_.check(fits(at_, *size, archive_.size()), "is cut short: ", in_quotes(name), " has ",
                  *size, " bytes, and ", archive_.size() - at_, " are left");
    const Bytes bytes = archive_.subspan(at_, *size);
    at_ += std::min((*size + kBlock - 1) / kBlock * kBlock, archive_.size() - at_);
    take(type, name, bytes);
  }

  void take(char type, const std::string& name, Bytes bytes) {
    if (type == 'L') {
      source_.check(bytes.size() <= kLongestName, "has a name of ", bytes.size(),
                    " bytes, more than the limit of ", kLongestName);
      overrides_.name = text_of(bytes).substr(0, text_of(bytes).find('\0'));
      return;
    }
    if (type == 'x') {
      source_.check(bytes.size() <= kLongestRecords, "has a pax header of ", bytes.size(),
                    " bytes, more than the limit of ", kLongestRecords);
      read_pax(text_of(bytes), source_, overrides_);
      source_.check(overrides_.name.size() <= kLongestName, "has a name of ",
                    overrides_.name.size(), " bytes, more than the limit of ", kLongestName);
      return;
    }
    if (type == 'K' || type == 'g') return;
    overrides_ = {};
    if (type == '5') return;
    source_.check(type == '0' || type == '\0' || type == '7', in_quotes(name),
                  " is no plain file but of type ", in_quotes(std::string(1, type)),
                  "; make the archive with plain files (tar --dereference --hard-dereference)");
    // Archives from before POSIX mark folders by their names alone.
    if (!name.ends_with('/')) entries_.push_back({name, bytes});
  }

  Bytes archive_;
  const Source& source_;
  uint64_t at_ = 0;
  Overrides overrides_;
  std::vector<TarEntry> entries_;
};

}  // namespace

std::vector<TarEntry> read_tar(Bytes archive, const Source& source) {
  return TarReader(archive, source).read();
}

}  // namespace mala::data
