// Choosing an instruction set by the machine, the environment or a caller.
#include "mala/kernels/cpu/isa.h"

#include <atomic>
#include <cstdlib>

#include "mala/core/error.h"
#include "mala/kernels/cpu/targets.h"

namespace mala::cpu {
namespace {

// Our names for Highway's targets: those that people know.
std::string isa_name(int64_t target) {
  const std::string name = hwy::TargetName(target);
  if (name == "AVX3") return "avx512";
  if (name == "AVX2") return "avx2";
  if (name == "SSE4") return "sse4";
  if (name == "SSE2") return "sse2";
  if (name == "NEON" || name == "NEON_WITHOUT_AES") return "neon";
  if (name == "Scalar" || name == "SCALAR" || name == "Emu128" || name == "EMU128") {
    return "scalar";
  }
  return name;
}

// Best first: Highway numbers better targets lower.
std::vector<int64_t> usable_targets() {
  std::vector<int64_t> targets;
  // Code without vectors runs anywhere, whatever Highway was told of the machine.
  const int64_t runs_here = hwy::SupportedTargets() | HWY_SCALAR | HWY_EMU128;
  for (int64_t rest = runs_here & HWY_TARGETS; rest; rest &= rest - 1) {
    targets.push_back(rest & -rest);
  }
  return targets;
}

int64_t target_named(const std::string& name, const char* where) {
  std::string known;
  for (const int64_t target : usable_targets()) {
    if (isa_name(target) == name) return target;
    known += (known.empty() ? "" : ", ") + isa_name(target);
  }
  throw Error(str("[", where, "] instruction set '", name,
                  "' is not one that this build has and this machine runs; choose from ", known));
}

int64_t first_choice() {
  const char* asked = std::getenv("MALA_ISA");
  return asked && *asked ? target_named(asked, "MALA_ISA") : usable_targets().front();
}

struct Choice {
  std::atomic<int64_t> target;
  hwy::ChosenTarget chosen;

  explicit Choice(int64_t first) { choose(first); }
  void choose(int64_t to) {
    target = to;
    chosen.Update(to);
  }
};

Choice& choice() {
  static Choice one(first_choice());
  return one;
}

}  // namespace

const hwy::ChosenTarget& chosen_target() { return choice().chosen; }

std::vector<std::string> usable_isas() {
  std::vector<std::string> names;
  for (const int64_t target : usable_targets()) names.push_back(isa_name(target));
  return names;
}

std::string current_isa() { return isa_name(choice().target); }

void use_isa(const std::string& name) { choice().choose(target_named(name, "use_isa")); }

}  // namespace mala::cpu
