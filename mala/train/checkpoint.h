// Checkpoints: all that a run needs to go on as if it had never stopped, in one file that appears
// whole or not at all.
#pragma once

#include <torch/types.h>

#include <optional>
#include <string>

#include "mala/io/numbered_files.h"
#include "mala/models/tensors.h"

namespace mala::train {

// What a run knows besides its tensors.
struct Progress {
  int64_t step = 0;                 // done
  std::optional<double> best = {};  // metric so far
  int64_t best_step = 0;
  int64_t examples = 0;     // in one step, of all processes: another number is another run
  std::string recipe = {};  // the settings it began with, as TOML
};

class Checkpoints {
 public:
  // Keeps the last `keep` in `folder`.
  Checkpoints(const std::string& folder, int64_t keep);

  // Throws mala::Error when the disk does not take it; earlier checkpoints stay.
  std::string save(const Progress& progress, const models::NamedTensors& tensors) const;

  // Fills the tensors from the newest checkpoint. Nothing when there is none. Throws mala::Error
  // when it does not fit them, before anything is changed.
  std::optional<Progress> restore(const models::NamedTensors& tensors) const;

  // Path of the newest; empty when there is none.
  std::string newest() const;
  void remove_parts() const { files_.remove_parts(); }

 private:
  io::NumberedFiles files_;
  int64_t keep_;
};

}  // namespace mala::train
