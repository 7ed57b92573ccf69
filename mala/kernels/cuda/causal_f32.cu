// The sweeps of the causal form for float tensors.
#include "mala/kernels/cuda/launch_causal.cuh"

namespace mala::gpu {

template void launch_causal_sum_keys(Launcher&, const Call<float>&, int, const PassGrid&,
                                     const PassGrid&);
template void launch_causal_forward(Launcher&, const Call<float>&, int, const PassGrid&);
template void launch_causal_query_gradients(Launcher&, const Call<float>&, int, const PassGrid&);
template void launch_causal_sum_queries(Launcher&, const Call<float>&, int, const PassGrid&);
template void launch_causal_key_gradients(Launcher&, const Call<float>&, int, const PassGrid&);

}  // namespace mala::gpu
