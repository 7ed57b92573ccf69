// What the benchmark says: tables for people, JSON for programs, CSV for the record.
#pragma once

#include <string>
#include <vector>

#include "bench/support/roof.h"
#include "bench/support/row.h"
#include "bench/support/sections.h"

namespace mala::bench {

// What the figures of a run depend on.
struct Setting {
  Roof roof;
  std::string commit;
  double others = 0;  // cores that other programs kept busy meanwhile, see bystanders.h
};

// A line each, for the head of the tables and of the CSV.
std::vector<std::string> describe(const Setting& setting);

// The rows of one section, and what its figures mean.
std::string table(const Section& section, const std::vector<Row>& rows);

// A list of {name, pass, shape, dtype, device, impl, ms, limit_ms}; only rows that were timed.
std::string json(const std::vector<Row>& rows);

// The same and more, one line a row, after `head` as comment lines.
std::string csv(const std::vector<Row>& rows, const std::vector<std::string>& head);

// Throws mala::Error where write_file would, which is better known before a long run.
void check_can_write(const std::string& path);

// Writes beside `path` and renames, so that a reader finds the old file or the whole new one.
void write_file(const std::string& path, const std::string& text);

}  // namespace mala::bench
