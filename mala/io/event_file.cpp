// Records of length, checksum, event, checksum; an event is a protocol buffer of three fields.
#include "mala/io/event_file.h"

#include <unistd.h>

#include <bit>

#include "mala/io/crc32.h"

namespace mala::io {
namespace {

// The kinds of field that protocol buffers know, as far as they are needed.
enum Kind : uint8_t { kVarint = 0, kEightBytes = 1, kBytes = 2, kFourBytes = 5 };

template <typename T>
void put_le(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i));
}

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, uint32_t field, Kind kind) { put_varint(out, field << 3 | kind); }

void put_bytes(std::string& out, uint32_t field, const std::string& bytes) {
  put_key(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

void put_double(std::string& out, uint32_t field, double value) {
  put_key(out, field, kEightBytes);
  put_le(out, std::bit_cast<uint64_t>(value));
}

void put_float(std::string& out, uint32_t field, double value) {
  put_key(out, field, kFourBytes);
  put_le(out, std::bit_cast<uint32_t>(static_cast<float>(value)));
}

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5.
std::string event_at(double seconds, int64_t step) {
  std::string event;
  put_double(event, 1, seconds);
  put_key(event, 2, kVarint);
  put_varint(event, static_cast<uint64_t>(step));
  return event;
}

// Summary: value = 1, again and again. Value: tag = 1, simple_value = 2.
std::string summary_of(const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, number] : scalars) {
    std::string value;
    put_bytes(value, 1, tag);
    put_float(value, 2, number);
    put_bytes(summary, 1, value);
  }
  return summary;
}

// Sums of data that hold sums of their own would be weak: they are turned and moved.
uint32_t masked_sum(const std::string& text) {
  const uint32_t sum = crc32c(bytes_of_text(text));
  return std::rotr(sum, 15) + 0xA282EAD8u;
}

}  // namespace

std::string event_file_name(double seconds) {
  char host[256] = "localhost";
  gethostname(host, sizeof(host) - 1);
  return str("events.out.tfevents.", static_cast<int64_t>(seconds), ".", host, ".", getpid());
}

EventFile::EventFile(const std::string& path, double seconds) : file_({"event_file", path}) {
  std::string event = event_at(seconds, 0);
  put_bytes(event, 3, "brain.Event:2");
  append_record(event);
}

void EventFile::write(int64_t step, double seconds, const Scalars& scalars) {
  std::string event = event_at(seconds, step);
  put_bytes(event, 5, summary_of(scalars));
  append_record(event);
}

void EventFile::append_record(const std::string& event) {
  std::string record;
  put_le(record, static_cast<uint64_t>(event.size()));
  put_le(record, masked_sum(record));
  record += event;
  put_le(record, masked_sum(event));
  file_.append(bytes_of_text(record));
}

}  // namespace mala::io
