// Which pictures a name stands for: a file, a folder or a pattern.
#pragma once

#include <string>
#include <vector>

namespace mala::data {

struct FoundPictures {
  std::vector<std::string> paths;
  std::string problem;   // why there are none, or not all; empty where nothing is wrong
  bool is_whole = true;  // whether everything could be listed
};

// Files below the folder, at any depth, whose names end as those of pictures do; hidden ones and
// those in hidden folders are left out. Sorted.
FoundPictures pictures_below(const std::string& folder);

// A folder gives the pictures below it, a pattern such as "cats/*.jpg" the files that fit it, and
// anything else itself, be it there or not. A name that exists is never taken for a pattern.
FoundPictures find_pictures(const std::string& name);

}  // namespace mala::data
