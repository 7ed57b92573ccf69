// The settings of training a classifier: pictures, model and loss.
#pragma once

#include <string>

#include "mala/core/fields.h"
#include "mala/data/augment/augmentation.h"

namespace mala::tasks {

struct ClassifyConfig {
  struct Model {
    std::string name;        // empty: that of the file in `init`
    std::string mixers;      // empty: those of the model
    double drop_path = -1;   // below 0: that of the model
    int64_t image_size = 0;  // 0: that of the model or of the file in `init`
    int64_t patch = 0;       // of a plain ViT, pixels on a side; 0: that of the model
    std::string init;        // weights to begin with
  } model;

  struct Data {
    std::string train, evaluate;  // a folder, a list or tar shards; see docs/data.md
    int64_t batch = 128;          // pictures of each process
    int64_t evaluation_batch = 256;
    int64_t repeats = 1;  // times that a picture comes in an epoch of its number of pictures
    int64_t workers = 0;  // threads that make batches; 0: one a core
    int64_t cache_megabytes = 0;
    double crop = 0.875;                 // of the short side, what evaluation sees
    std::string normalization = "auto";  // imagenet, cifar10, half, or that of `init`
  } data;

  data::Augmentation augment;
  double label_smoothing = 0;
};

Fields fields_of(ClassifyConfig& config);

}  // namespace mala::tasks
