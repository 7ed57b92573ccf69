// The commands of the program, one file each. A new one is declared here and listed in main.cpp.
#pragma once

#include "mala/cli/command.h"

namespace mala::cli {

Command add_augment(CLI::App& program);
Command add_bench(CLI::App& program);
Command add_convert(CLI::App& program);
Command add_eval(CLI::App& program);
Command add_explain(CLI::App& program);
Command add_models(CLI::App& program);
Command add_predict(CLI::App& program);
Command add_train(CLI::App& program);

}  // namespace mala::cli
