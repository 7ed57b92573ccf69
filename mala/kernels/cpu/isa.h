// The instruction sets the CPU kernels are compiled for, and the one in use.
#pragma once

#include <string>
#include <vector>

namespace mala::cpu {

// Those that this build has and this machine runs, best first: avx512, avx2, sse4, scalar, neon.
std::vector<std::string> usable_isas();

// The one that kernels use: the best, unless the environment variable MALA_ISA or use_isa names
// another. Throws mala::Error when MALA_ISA names none of usable_isas().
std::string current_isa();

// For tests and benches: this one from now on, in the whole process. Throws as current_isa.
void use_isa(const std::string& name);

}  // namespace mala::cpu
