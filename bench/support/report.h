// What the benchmark says: a table for people, JSON for programs, CSV for the record.
#pragma once

#include <string>
#include <vector>

#include "bench/support/case.h"
#include "bench/support/roof.h"

namespace mala::bench {

enum class Outcome { kTimed, kSkipped, kWrong };

struct Row {
  Shape shape;
  Pass pass = Pass::kForward;
  std::string impl;
  Outcome outcome = Outcome::kTimed;
  double ms = 0;          // the median, where it was timed
  double fma_gflops = 0;  // the multiply-add rate, the median of bursts in turns with it
  double error = 0;       // against float64
};

// What the figures of a run depend on.
struct Setting {
  Roof roof;
  std::string commit;
  double others = 0;  // cores that other programs kept busy meanwhile, see bystanders.h
};

// A line each, for the head of the table and of the CSV.
std::vector<std::string> describe(const Setting& setting);

std::string table(const std::vector<Row>& rows);

// A list of {name, pass, shape, dtype, device, impl, ms, limit_ms}; only rows that were timed.
std::string json(const std::vector<Row>& rows);

// The same and more, one line a row, after `head` as comment lines.
std::string csv(const std::vector<Row>& rows, const std::vector<std::string>& head);

// Writes beside `path` and renames, so that a reader finds the old file or the whole new one.
void write_file(const std::string& path, const std::string& text);

}  // namespace mala::bench
