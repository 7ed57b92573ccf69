// Weights of convolutions are those with four dimensions.
#include "mala/models/layout.h"

namespace mala::models {

void lay_channels_last(torch::nn::Module& model) {
  const torch::NoGradGuard no_gradients;
  for (torch::Tensor& parameter : model.parameters()) {
    if (parameter.dim() != 4) continue;
    parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
  }
}

}  // namespace mala::models
