// The sections of attention_bench: each asks one question, and has a table for the answer.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench/support/columns.h"
#include "bench/support/measure.h"
#include "bench/support/row.h"

namespace mala::bench {

// What a section runs over: every form, type and implementation in turns, shape by shape and pass
// by pass.
struct Range {
  std::vector<Shape> shapes;
  std::vector<Pass> passes;
  std::vector<DType> dtypes;
  std::vector<std::string> impls;
};

// Whose time a row is compared with.
struct Rival {
  Case what;
  std::string impl;
};

struct Section {
  std::string name;
  std::string about;                            // in a line or two, below its table
  std::vector<Form> forms;                      // those that an implementation lacks are left out
  Range range;                                  // where the caller does not say
  std::function<Shape(Shape)> fit = {};         // what it takes a given shape for
  std::function<Rival(const Row&)> rival = {};  // absent: none
  std::vector<Column> columns;
};

// One head of 64, from the fewest tokens to the most by doubling.
std::vector<Shape> one_head(int64_t fewest, int64_t most);

const std::vector<Section>& all_sections();

using Group = std::vector<Contest>;

// The contests of a section, those in a group to take turns. Empty lists of `asked` stand for those
// of the section. Throws mala::Error where none of the implementations has a form of the section.
std::vector<Group> plan_section(const Section& section, const Range& asked);

std::vector<Row> run_section(const Section& section, const std::vector<Group>& groups,
                             const MeasureOptions& options);

}  // namespace mala::bench
