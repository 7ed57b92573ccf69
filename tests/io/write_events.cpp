// Writes a file of events for TensorBoard's own reader to read: write_events PATH.
#include <cstdio>

#include "mala/io/event_file.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_events PATH\n");
    return 2;
  }
  mala::io::EventFile file(argv[1], 1000);
  for (const int64_t step : {0, 1, 3, 7, 127, 128, 100'000}) {
    file.write(step, 1000.5, {{"step/loss", 1.0 / static_cast<double>(step + 1)}});
  }
  file.write(8, 1234.5, {{"evaluation/top1", 0.75}});
}
