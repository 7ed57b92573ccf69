// The commands of the program, one file each. A new one is declared here and listed in main.cpp.
#pragma once

#include "mala/cli/command.h"

namespace mala::cli {

Command add_augment(CLI::App& program);
Command add_models(CLI::App& program);

}  // namespace mala::cli
