// The directory at the end of a zip file, in both widths, and where the entries lie.
#include "mala/io/zip.h"

#include <algorithm>
#include <optional>

#include "mala/io/crc32.h"

namespace mala::io {
namespace {

constexpr uint32_t kLocalMark = 0x04034b50, kEntryMark = 0x02014b50, kEndMark = 0x06054b50;
constexpr uint32_t kWideEndMark = 0x06064b50, kWideLocatorMark = 0x07064b50;
constexpr size_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22;
constexpr size_t kWideEndBytes = 56, kWideLocatorBytes = 20;
constexpr uint32_t kInWideField = 0xFFFFFFFF;  // the number does not fit here, look there

struct Directory {
  uint64_t entries = 0, offset = 0, bytes = 0;
};

bool has_mark(Bytes archive, uint64_t offset, size_t bytes, uint32_t mark) {
  return fits(offset, bytes, archive.size()) && load_le<uint32_t>(archive, offset) == mark;
}

// The record that ends the file; behind it there may be a comment of known length.
std::optional<size_t> find_end(Bytes archive) {
  constexpr size_t kLongestComment = 0xFFFF;
  for (size_t comment = 0; comment <= kLongestComment; ++comment) {
    if (archive.size() < kEndBytes + comment) break;
    const size_t at = archive.size() - kEndBytes - comment;
    if (load_le<uint32_t>(archive, at) == kEndMark &&
        load_le<uint16_t>(archive, at + 20) == comment) {
      return at;
    }
  }
  return std::nullopt;
}

Directory find_directory(Bytes archive, const Source& source) {
  const auto end = find_end(archive);
  source.check(end.has_value(), "has no zip directory at its end; it is cut short or damaged");
  if (*end >= kWideLocatorBytes &&
      has_mark(archive, *end - kWideLocatorBytes, kWideLocatorBytes, kWideLocatorMark)) {
    const uint64_t at = load_le<uint64_t>(archive, *end - kWideLocatorBytes + 8);
    source.check(has_mark(archive, at, kWideEndBytes, kWideEndMark),
                 "points to a zip64 directory where there is none; it is damaged");
    return {load_le<uint64_t>(archive, at + 32), load_le<uint64_t>(archive, at + 48),
            load_le<uint64_t>(archive, at + 40)};
  }
  return {load_le<uint16_t>(archive, *end + 10), load_le<uint32_t>(archive, *end + 16),
          load_le<uint32_t>(archive, *end + 12)};
}

// One entry of the directory, with its numbers in full width.
struct Record {
  std::string_view name;
  uint64_t bytes = 0, stored_bytes = 0, offset = 0;
  size_t length = 0;  // of the record itself
  bool plain = true;
};

// The zip64 field has eight bytes for every number that did not fit, in a fixed order.
void widen(Record& record, Bytes extra, const Source& source) {
  uint64_t* const numbers[] = {&record.bytes, &record.stored_bytes, &record.offset};
  size_t at = 0;
  while (fits(at, 4, extra.size())) {
    const uint16_t kind = load_le<uint16_t>(extra, at), length = load_le<uint16_t>(extra, at + 2);
    source.check(fits(at + 4, length, extra.size()), "has a broken zip field at ",
                 in_quotes(record.name));
    if (kind == 1) {
      Bytes field = extra.subspan(at + 4, length);
      for (uint64_t* number : numbers) {
        if (*number != kInWideField) continue;
        source.check(field.size() >= 8, "has a broken zip64 field at ", in_quotes(record.name));
        *number = load_le<uint64_t>(field, 0);
        field = field.subspan(8);
      }
      return;
    }
    at += 4 + size_t{length};
  }
}

Record read_record(Bytes directory, const Source& source) {
  source.check(has_mark(directory, 0, kEntryBytes, kEntryMark),
               "has a broken zip directory; it is damaged");
  const size_t name = load_le<uint16_t>(directory, 28), extra = load_le<uint16_t>(directory, 30);
  const size_t comment = load_le<uint16_t>(directory, 32);
  Record record;
  record.length = kEntryBytes + name + extra + comment;
  source.check(record.length <= directory.size(), "has a broken zip directory; it is damaged");
  record.name = text_of(directory.subspan(kEntryBytes, name));
  record.stored_bytes = load_le<uint32_t>(directory, 20);
  record.bytes = load_le<uint32_t>(directory, 24);
  record.offset = load_le<uint32_t>(directory, 42);
  widen(record, directory.subspan(kEntryBytes + name, extra), source);
  const bool encrypted = load_le<uint16_t>(directory, 8) & 1;
  const bool compressed = load_le<uint16_t>(directory, 10) != 0;
  record.plain = !encrypted && !compressed && record.bytes == record.stored_bytes;
  return record;
}

// The bytes of an entry, behind a header of its own that must agree on the name.
Bytes entry_bytes(Bytes archive, const Record& record, const Source& source) {
  const std::string name = in_quotes(record.name);
  source.check(has_mark(archive, record.offset, kLocalBytes, kLocalMark), "has no zip entry where ",
               name, " should be; it is damaged");
  const uint64_t name_bytes = load_le<uint16_t>(archive, record.offset + 26);
  const uint64_t skip = kLocalBytes + name_bytes + load_le<uint16_t>(archive, record.offset + 28);
  source.check(fits(record.offset, skip, archive.size()) &&
                   fits(record.offset + skip, record.stored_bytes, archive.size()),
               "ends within ", name, "; it is cut short or damaged");
  source.check(text_of(archive.subspan(record.offset + kLocalBytes, name_bytes)) == record.name,
               "calls the entry ", name, " by two names; it is damaged");
  return archive.subspan(record.offset + skip, record.stored_bytes);
}

}  // namespace

bool looks_like_zip(Bytes bytes) { return has_mark(bytes, 0, 4, kLocalMark); }

ZipEntries read_zip(Bytes archive, const Source& source) {
  const Directory directory = find_directory(archive, source);
  source.check(fits(directory.offset, directory.bytes, archive.size()),
               "has a zip directory that lies beyond its end; it is cut short or damaged");
  Bytes rest = archive.subspan(directory.offset, directory.bytes);
  ZipEntries entries;
  uint64_t left = archive.size();  // for entries to come; in each other they could be endless
  for (uint64_t i = 0; i < directory.entries; ++i) {
    const Record record = read_record(rest, source);
    const ZipEntry entry{entry_bytes(archive, record, source), load_le<uint32_t>(rest, 16),
                         record.plain};
    source.check(entry.bytes.size() <= left,
                 "has zip entries of more bytes than it has itself, so that they overlap; it is"
                 " damaged");
    left -= entry.bytes.size();
    source.check(entries.emplace(record.name, entry).second, "has the zip entry ",
                 in_quotes(record.name), " twice");
    rest = rest.subspan(record.length);
  }
  return entries;
}

Bytes contents(std::string_view name, const ZipEntry& entry, const Source& source) {
  source.check(entry.plain, "its entry ", in_quotes(name),
               " is compressed or encrypted, torch.save stores plainly; load it with torch and"
               " save it anew");
  source.check(entry.crc == 0 || crc32(entry.bytes) == entry.crc, "its entry ", in_quotes(name),
               " is not as it was written (its checksum differs); fetch the file again");
  return entry.bytes;
}

}  // namespace mala::io
