// The passes of the forward for float tensors.
#include "mala/kernels/cuda/launch_forward.cuh"

namespace mala::gpu {

template void launch_sum_keys(Launcher&, const Call<float>&, int, const PassGrid&);
template void launch_apply_queries(Launcher&, const Call<float>&, int, const PassGrid&);
template void launch_whole_heads(Launcher&, const Call<float>&, const PassGrid&);
template bool launch_spread_heads(Launcher&, const Call<float>&, const PassGrid&);
template void launch_prepare_right(Launcher&, const Call<float>&, int, int64_t);

}  // namespace mala::gpu
