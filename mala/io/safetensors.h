// safetensors files: a length, a JSON header, and the bytes of the arrays without gaps.
#pragma once

#include <map>
#include <span>
#include <string>

#include "mala/io/weights.h"

namespace mala::io {

// The file is mapped, not copied. Throws mala::Error that names the file when anything in it
// contradicts the format: overlaps, gaps, sizes beyond the file, names that come twice.
Weights read_safetensors(const std::string& path);

// The same for bytes in memory, which must outlive the result; messages call them `name`.
Weights parse_safetensors(Bytes bytes, const std::string& name);

// The same for another public entry, whose name the messages carry.
Weights parse_safetensors(Bytes bytes, const Source& source);

// Writes beside `path` and renames, so that a reader finds the old file or the new one, never
// half of one. Throws when the arrays contradict themselves or the disk does not take them.
void write_safetensors(const std::string& path, std::span<const Array> arrays,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace mala::io
