// How many parameters a model has, without making it.
#pragma once

#include "mala/models/vision/config.h"
#include "mala/models/vision/deit.h"

namespace mala::models {

int64_t count_parameters(const MavitConfig& config);
int64_t count_parameters(const DeitConfig& config);

}  // namespace mala::models
