// How a training runs, whatever it trains: the settings of one run, listed once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mala/core/fields.h"

namespace mala::train {

struct RunConfig {
  std::string out = "runs/run";  // the folder for checkpoints, metrics and the model
  std::string device = "auto";   // auto, cpu or cuda
  std::string precision = "float32";
  int64_t seed = 0;
  int64_t threads = 0;         // of torch on the CPU; 0 takes one a core
  int64_t report_every = 10;   // steps from one line of metrics to the next
  int64_t save_every = 0;      // steps from one checkpoint to the next; 0: once an epoch
  int64_t evaluate_every = 1;  // epochs from one evaluation to the next; 0: only at the end
  int64_t keep = 2;            // checkpoints that stay besides the model
  std::string export_weights = "best";  // best, or last
};

struct OptimizerConfig {
  double lr = 1e-3;
  int64_t lr_batch = 0;  // lr is for so many examples a step and grows with them; 0: not
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double weight_decay = 0.05;
  std::vector<std::string> no_decay = {"pos_embed", "cls_token"};
  double layer_decay = 1;  // of the learning rate, from one layer to the one before it
  double clip_norm = 0;    // of all gradients together; 0: none
  int64_t accumulate = 1;  // batches in one step
  bool channels_last = true;
  bool checkpoint_activations = false;
  std::vector<std::string> freeze = {};  // modules that stay as they are
};

struct ScheduleConfig {
  int64_t epochs = 1;
  int64_t max_steps = 0;  // ends earlier; 0: no
  double warmup_epochs = 0;
  double warmup_lr = 1e-6;  // what the warm-up begins with
  double min_lr = 1e-5;
  bool by_epoch = false;    // lr changes once an epoch, as published, or at every step
  double ema_decay = 0;     // of the averaged weights; 0: none
  int64_t ema_batch = 0;    // ema_decay is for so many examples a step; 0: as it is
  bool ema_warmup = false;  // short averages at first, so that the beginning is forgotten
};

struct TrainConfig {
  RunConfig run;
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
};

Fields fields_of(TrainConfig& config);

// Throws mala::Error that says which setting is out of bounds.
void check_config(const TrainConfig& config);

}  // namespace mala::train
