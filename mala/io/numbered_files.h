// A folder of files that are numbered by the step they were made at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mala::io {

class NumberedFiles {
 public:
  // Makes the folder, and those above it, where there is none. Throws mala::Error that names it
  // when that fails.
  explicit NumberedFiles(const std::string& folder);

  // "folder/step_0000000123.safetensors"
  std::string path_of(int64_t number) const;

  // Lowest first. Names of another kind are no business of ours.
  std::vector<int64_t> numbers() const;

  // Removes the lowest until `count` are left.
  void keep_last(int64_t count) const;
  // Removes what a writer that was killed left half written.
  void remove_parts() const;

 private:
  std::string folder_;
};

// Makes the folder, and those above it, where there is none.
void make_folder(const std::string& folder);

}  // namespace mala::io
