// The program `mala`: finds the command, runs it, and turns errors into text and exit codes.
#include <c10/util/Exception.h>

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "mala/cli/commands.h"
#include "mala/core/nearest.h"
#include "mala/core/source.h"

namespace mala::cli {
namespace {

using AddCommand = Command (*)(CLI::App& program);

constexpr AddCommand kCommands[] = {add_predict, add_eval,  add_explain, add_models,
                                    add_convert, add_bench, add_augment, add_train};

constexpr const char* kFooter = R"(
`mala COMMAND --help` says more, with examples. Answers go to stdout, everything else to stderr.
The program ends with 0, with 1 when something failed, with 2 when it was called wrongly.)";

// What may stand where the unknown word stood: options where it looks like one, else commands.
std::vector<std::string> known_words(const CLI::App& app, bool is_option) {
  std::vector<std::string> words;
  if (is_option) {
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) words.push_back("--" + name);
    }
  } else {
    for (const CLI::App* command : app.get_subcommands({})) words.push_back(command->get_name());
  }
  return words;
}

// The first word that nobody took, and what it may have been meant to be.
std::string describe_unknown(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) {
    if (!command->remaining().empty()) return describe_unknown(*command);
  }
  const std::vector<std::string> unknown = app.remaining();
  std::string word = unknown.front();
  for (const std::string& other : unknown) {
    if (!word.starts_with('-') && other.starts_with('-')) word = other;
  }
  word = word.substr(0, word.find('='));
  const bool is_option = word.starts_with('-');
  if (!is_option && app.get_parent()) {
    return str(in_quotes(word), " is one word too many for mala ", app.get_name());
  }
  const std::string place = app.get_parent() ? " of mala " + app.get_name() : "";
  return str(in_quotes(word), " is no ", is_option ? "option" : "command", place,
             did_you_mean(word, known_words(app, is_option)));
}

bool has_unknown(const CLI::App& program) { return !program.remaining(true).empty(); }

// The text for somebody who called the program wrongly.
std::string describe(const CLI::App& program, const CLI::ParseError& error) {
  std::string help = "mala --help";
  for (const CLI::App* command : program.get_subcommands()) {
    help = "mala " + command->get_name() + " --help";
  }
  // What is missing may be there, mistyped.
  const bool may_be_unknown = dynamic_cast<const CLI::ExtrasError*>(&error) ||
                              dynamic_cast<const CLI::RequiredError*>(&error);
  const bool is_unknown = may_be_unknown && has_unknown(program);
  return str(is_unknown ? describe_unknown(program) : error.what(), "\nTry: ", help);
}

int run_program(int argc, char** argv) {
  CLI::App program("Magnitude-aware linear attention: models that look at pictures.", "mala");
  program.set_version_flag("--version", "mala " MALA_VERSION);
  program.footer(kFooter);
  program.get_formatter()->column_width(26);
  std::vector<Command> commands;
  for (const AddCommand add : kCommands) commands.push_back(add(program));
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw UsageError(describe(program, error));
    return program.exit(error);  // --help and --version
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return command.run();
  }
  std::fputs(program.help().c_str(), stderr);
  return kWrongUse;
}

// Answers that did not reach the disk are no answers.
int after_flush(int code) {
  check(std::fflush(stdout) == 0 && std::ferror(stdout) == 0, "mala",
        "cannot write to stdout; is the disk full?");
  return code;
}

int fail(const char* message, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "mala: %s\n", message);
  return code;
}

}  // namespace
}  // namespace mala::cli

int main(int argc, char** argv) try {
  return mala::cli::after_flush(mala::cli::run_program(argc, argv));
} catch (const mala::cli::UsageError& error) {
  return mala::cli::fail(error.what(), mala::cli::kWrongUse);
} catch (const c10::Error& error) {
  return mala::cli::fail(error.what_without_backtrace(), mala::cli::kFailed);
} catch (const std::bad_alloc&) {
  return mala::cli::fail("out of memory", mala::cli::kFailed);
} catch (const std::exception& error) {
  return mala::cli::fail(error.what(), mala::cli::kFailed);
}
