// The list of settings, and what values make sense.
#include "mala/train/config.h"

#include <algorithm>

#include "mala/core/error.h"

namespace mala::train {
namespace {

void append(Fields& all, Fields more) {
  for (Field& field : more) all.push_back(std::move(field));
}

Fields fields_of(RunConfig& c) {
  return {{"run.out", &c.out, "folder for checkpoints, metrics and the model"},
          {"run.device", &c.device, "auto, cpu or cuda"},
          {"run.precision", &c.precision, "float32, bfloat16 or float16 (with a loss scale)"},
          {"run.seed", &c.seed, "same seed, same run"},
          {"run.threads", &c.threads, "of torch on the CPU; 0: one a core"},
          {"run.report_every", &c.report_every, "steps between lines of metrics"},
          {"run.save_every", &c.save_every, "steps between checkpoints; 0: once an epoch"},
          {"run.evaluate_every", &c.evaluate_every, "epochs between evaluations; 0: at the end"},
          {"run.keep", &c.keep, "checkpoints that stay"},
          {"run.export", &c.export_weights, "what model.safetensors holds: best or last"}};
}

Fields fields_of(OptimizerConfig& c) {
  return {{"optimizer.lr", &c.lr, "highest learning rate of AdamW"},
          {"optimizer.lr_batch", &c.lr_batch, "examples a step that lr is for; 0: any"},
          {"optimizer.beta1", &c.beta1, "of the mean of gradients"},
          {"optimizer.beta2", &c.beta2, "of the mean of their squares"},
          {"optimizer.eps", &c.eps, "added to the root of that"},
          {"optimizer.weight_decay", &c.weight_decay, "of all but biases and vectors"},
          {"optimizer.no_decay", &c.no_decay, "names that are not decayed either"},
          {"optimizer.layer_decay", &c.layer_decay, "of lr from a layer to the one before"},
          {"optimizer.clip_norm", &c.clip_norm, "of all gradients together; 0: none"},
          {"optimizer.accumulate", &c.accumulate, "batches in one step"},
          {"optimizer.channels_last", &c.channels_last, "layout of convolutions"},
          {"optimizer.checkpoint_activations", &c.checkpoint_activations,
           "reckon activations twice, keep few"},
          {"optimizer.freeze", &c.freeze, "modules that stay as they are"}};
}

Fields fields_of(ScheduleConfig& c) {
  return {{"schedule.epochs", &c.epochs, "passes over the data"},
          {"schedule.max_steps", &c.max_steps, "ends earlier; 0: no"},
          {"schedule.warmup_epochs", &c.warmup_epochs, "over which lr rises"},
          {"schedule.warmup_lr", &c.warmup_lr, "what the warm-up begins with"},
          {"schedule.min_lr", &c.min_lr, "what the cosine ends with"},
          {"schedule.by_epoch", &c.by_epoch, "lr changes once an epoch, else every step"},
          {"schedule.ema_decay", &c.ema_decay, "of averaged weights; 0: none"},
          {"schedule.ema_batch", &c.ema_batch, "examples a step that ema_decay is for; 0: any"},
          {"schedule.ema_warmup", &c.ema_warmup, "short averages at first"}};
}

struct Bounds {
  const char* name;
  double value, least, most;
};

void check_one_of(const char* name, const std::string& value, std::vector<std::string> words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + word;
  check(std::find(words.begin(), words.end(), value) != words.end(), "settings", name, " is '",
        value, "'; use one of ", all);
}

}  // namespace

Fields fields_of(TrainConfig& config) {
  Fields all = fields_of(config.run);
  append(all, fields_of(config.optimizer));
  append(all, fields_of(config.schedule));
  return all;
}

void check_config(const TrainConfig& c) {
  constexpr double kMany = 1e15;
  const Bounds bounds[] = {
      {"run.seed", static_cast<double>(c.run.seed), 0, kMany},
      {"run.threads", static_cast<double>(c.run.threads), 0, 4096},
      {"run.report_every", static_cast<double>(c.run.report_every), 1, kMany},
      {"run.save_every", static_cast<double>(c.run.save_every), 0, kMany},
      {"run.evaluate_every", static_cast<double>(c.run.evaluate_every), 0, kMany},
      {"run.keep", static_cast<double>(c.run.keep), 1, kMany},
      {"optimizer.lr", c.optimizer.lr, 0, 1e3},
      {"optimizer.lr_batch", static_cast<double>(c.optimizer.lr_batch), 0, kMany},
      {"optimizer.beta1", c.optimizer.beta1, 0, 0.999999},
      {"optimizer.beta2", c.optimizer.beta2, 0, 0.999999999},
      {"optimizer.eps", c.optimizer.eps, 0, 1},
      {"optimizer.weight_decay", c.optimizer.weight_decay, 0, 1e3},
      {"optimizer.layer_decay", c.optimizer.layer_decay, 0, 1},
      {"optimizer.clip_norm", c.optimizer.clip_norm, 0, kMany},
      {"optimizer.accumulate", static_cast<double>(c.optimizer.accumulate), 1, 1e6},
      {"schedule.epochs", static_cast<double>(c.schedule.epochs), 1, 1e9},
      {"schedule.max_steps", static_cast<double>(c.schedule.max_steps), 0, kMany},
      {"schedule.warmup_epochs", c.schedule.warmup_epochs, 0, 1e9},
      {"schedule.warmup_lr", c.schedule.warmup_lr, 0, 1e3},
      {"schedule.min_lr", c.schedule.min_lr, 0, 1e3},
      {"schedule.ema_decay", c.schedule.ema_decay, 0, 0.9999999999},
      {"schedule.ema_batch", static_cast<double>(c.schedule.ema_batch), 0, kMany}};
  for (const Bounds& b : bounds) {
    check(b.value >= b.least && b.value <= b.most, "settings", b.name, " is ", b.value, "; needs ",
          b.least, " to ", b.most);
  }
  check(c.schedule.warmup_epochs < static_cast<double>(c.schedule.epochs), "settings",
        "schedule.warmup_epochs is ", c.schedule.warmup_epochs, " and schedule.epochs ",
        c.schedule.epochs, ": the learning rate would never come down; try warmup_epochs=",
        0.1 * static_cast<double>(c.schedule.epochs));
  check(!c.run.out.empty(), "settings", "run.out is empty; name a folder for the results");
  check_one_of("run.device", c.run.device, {"auto", "cpu", "cuda"});
  check_one_of("run.precision", c.run.precision, {"float32", "bfloat16", "float16"});
  check_one_of("run.export", c.run.export_weights, {"best", "last"});
}

}  // namespace mala::train
