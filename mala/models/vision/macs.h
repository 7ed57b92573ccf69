// The work of a model: multiply-adds of its products and convolutions.
#pragma once

#include "mala/models/vision/config.h"
#include "mala/models/vision/deit.h"

namespace mala::models {

// Of one picture. Norms, activations and sums over tokens are left out.
int64_t count_macs(const MavitConfig& config, nn::GridSize picture);
int64_t count_macs(const DeitConfig& config, nn::GridSize picture);

}  // namespace mala::models
