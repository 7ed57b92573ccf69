// Numbers and text of every width that pickles have.
#include "mala/io/pickle_constants.h"

#include <charconv>

#include "mala/io/pickle_opcodes.h"

namespace mala::io {
namespace {

// So many bytes, lowest first, the highest with the sign.
bool push_long(uint32_t count, PickleInput& input, PickleStack& stack) {
  const Bytes bytes = input.take(count);
  if (count > 8) return stack.push_opaque();
  uint64_t value = count > 0 && (bytes[count - 1] & std::byte{0x80}) != std::byte{0} ? ~0ull : 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint64_t>(bytes[i]);
  return stack.push_integer(static_cast<int64_t>(value));
}

bool push_written(std::string_view digits, PickleStack& stack) {
  if (digits.ends_with('L')) digits.remove_suffix(1);
  int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value);
  return result.ec == std::errc() && result.ptr == end ? stack.push_integer(value)
                                                       : stack.push_opaque();
}

bool push_quoted(std::string_view text, PickleStack& stack) {
  return stack.push_text(text.size() >= 2 ? text.substr(1, text.size() - 2) : text);
}

}  // namespace

bool read_number(char code, PickleInput& input, PickleStack& stack) {
  switch (code) {
    case op::kNone:
      return stack.push_opaque();
    case op::kNewTrue:
      return stack.push_integer(1);
    case op::kNewFalse:
      return stack.push_integer(0);
    case op::kBinInt:
      return stack.push_integer(static_cast<int32_t>(input.number<uint32_t>()));
    case op::kBinInt1:
      return stack.push_integer(input.number<uint8_t>());
    case op::kBinInt2:
      return stack.push_integer(input.number<uint16_t>());
    case op::kLong1:
      return push_long(input.number<uint8_t>(), input, stack);
    case op::kLong4:
      return push_long(input.number<uint32_t>(), input, stack);
    case op::kInt:
    case op::kLong:
      return push_written(input.line(), stack);
    case op::kFloat:
      input.line();
      return stack.push_opaque();
    case op::kBinFloat:
      input.take(8);
      return stack.push_opaque();
    default:
      return false;
  }
}

bool read_text(char code, PickleInput& input, PickleStack& stack) {
  switch (code) {
    case op::kBinUnicode:
    case op::kBinString:
      return stack.push_text(input.text(input.number<uint32_t>()));
    case op::kShortBinUnicode:
    case op::kShortBinString:
      return stack.push_text(input.text(input.number<uint8_t>()));
    case op::kBinUnicode8:
      return stack.push_text(input.text(input.number<uint64_t>()));
    case op::kUnicode:
      return stack.push_text(input.line());
    case op::kString:
      return push_quoted(input.line(), stack);
    case op::kBinBytes:
      input.take(input.number<uint32_t>());
      return stack.push_opaque();
    case op::kShortBinBytes:
      input.take(input.number<uint8_t>());
      return stack.push_opaque();
    case op::kBinBytes8:
    case op::kByteArray8:
      input.take(input.number<uint64_t>());
      return stack.push_opaque();
    default:
      return false;
  }
}

}  // namespace mala::io
