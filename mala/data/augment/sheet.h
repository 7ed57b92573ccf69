// Pictures of what augmentations do, for people to look at.
#pragma once

#include <string>
#include <vector>

#include "mala/data/augment/augmentation.h"
#include "mala/data/dataset/image_source.h"

namespace mala::data {

struct SheetOptions {
  int64_t rows = 6, columns = 8;
  int64_t image_size = 128;
  uint64_t seed = 0;
  Augmentation augmentation{};
};

struct Sheet {
  Image image;
  std::vector<std::string> rows;  // what each of them shows
};

// A row for each of `rows` pictures, spread over the source: first as evaluation sees it, then as
// training sees it, mixed with the others where that is asked for. Broken pictures are replaced as
// in training. Throws mala::Error when an option is out of its range.
Sheet draw_sheet(const ImageSource& source, const SheetOptions& options);

// A row for each augmentation alone, on `columns` pictures: the first row has them as they are.
// What is off in the options is shown as the published recipe has it.
Sheet draw_each(const ImageSource& source, const SheetOptions& options);

}  // namespace mala::data
