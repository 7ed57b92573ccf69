// What the emulator says when a kernel does what it must not.
#pragma once

#include <source_location>
#include <string>

#include "mala/core/error.h"

namespace mala::emulator {

using Where = std::source_location;  // in the kernel's source

// Stops the launch that is running, which throws mala::Error with this text and the place: kernel,
// block, thread.
[[noreturn]] void fail(const std::string& what);

template <typename... Parts>
[[noreturn]] void fail_at(const Where& where, const Parts&... parts) {
  const std::string file = where.file_name();
  const size_t inside = file.rfind("/mala/kernels/");
  fail(str(inside == std::string::npos ? file : file.substr(inside + 1), ":", where.line(), ": ",
           parts...));
}

}  // namespace mala::emulator
