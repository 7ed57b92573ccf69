// The roofs of the cores in use: how fast they multiply and add, copy, and update in place.
#pragma once

#include <cstdint>
#include <span>

namespace mala::bench {

struct Roof {
  double fma_gflops = 0;   // float32, a multiply-add counts as two, all workers at once
  double copy_gbytes = 0;  // bytes read plus bytes written, from memory to memory
};

// Takes about half a second each. The best of several bursts counts: whatever else the machine
// does can only make a burst slower.
double measure_fma_gflops();
double measure_copy_gbytes();

// A burst of multiply-adds on all workers, about a millisecond; returns its flop. To be timed in
// turns with what it is the limit of: a core that is shared runs now faster, now slower.
double multiply_add_burst();

// Reads and writes every value once, in place, with a multiply-add between: what updating a state
// takes at least. A worker has the same values each time, so they stay in its cache if they fit.
void sweep_in_place(std::span<double> values);

}  // namespace mala::bench
