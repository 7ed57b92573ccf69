// What every command of the program is made of.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "mala/core/error.h"

namespace mala::cli {

// Exit codes, besides 0.
inline constexpr int kFailed = 1;
inline constexpr int kWrongUse = 2;

// What only other words on the command line can mend; the program ends with kWrongUse.
class UsageError : public Error {
 public:
  using Error::Error;
};

// Refuses numbers outside of low to high, without a word about that in the help.
template <typename T>
CLI::Validator within(T low, T high) {
  return CLI::Range(low, high).description("");
}

// A command's place on the command line, and what it does once that has been read: its exit code.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

}  // namespace mala::cli
