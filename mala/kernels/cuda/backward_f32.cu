// The passes of the backward for float tensors.
#include "mala/kernels/cuda/launch_backward.cuh"

namespace mala::gpu {

template void launch_query_gradients(Launcher&, const Call<float>&, int, const PassGrid&);
template void launch_key_gradients(Launcher&, const Call<float>&, int, const PassGrid&);
template void launch_whole_gradients(Launcher&, const Call<float>&, const PassGrid&);
template bool launch_spread_gradients(Launcher&, const Call<float>&, const PassGrid&);
template void launch_prepare_state_gradient(Launcher&, const Call<float>&, int, int64_t);

}  // namespace mala::gpu
