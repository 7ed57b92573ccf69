// Finds the cases of a section, and compares the rows that come of them.
#include <cstdio>

#include "bench/support/contenders.h"
#include "bench/support/sections.h"
#include "mala/core/error.h"

namespace mala::bench {

namespace {

Range fill_in(const Section& section, Range asked) {
  auto fill = [](auto& list, const auto& instead) {
    if (list.empty()) list = instead;
  };
  fill(asked.shapes, section.range.shapes);
  fill(asked.passes, section.range.passes);
  fill(asked.dtypes, section.range.dtypes);
  fill(asked.impls, section.range.impls);
  return asked;
}

Group contests_of(const Section& section, const Range& range, const Shape& shape, Pass pass) {
  Group contests;
  for (const Form form : section.forms) {
    for (const DType dtype : range.dtypes) {
      Contest contest{{form, section.fit ? section.fit(shape) : shape, pass, dtype}, {}};
      for (const std::string& impl : range.impls) {
        if (has_form(impl, contest.what)) contest.impls.push_back(impl);
      }
      if (!contest.impls.empty()) contests.push_back(contest);
    }
  }
  return contests;
}

void compare_with_rivals(const Section& section, std::vector<Row>& rows) {
  if (!section.rival) return;
  for (Row& row : rows) {
    const Rival rival = section.rival(row);
    for (const Row& other : rows) {
      const bool both = row.outcome == Outcome::kTimed && other.outcome == Outcome::kTimed;
      const bool rivals = other.what == rival.what && other.impl == rival.impl;
      if (both && rivals) row.ratio = row.ms / other.ms;
    }
  }
}

}  // namespace

std::vector<Group> plan_section(const Section& section, const Range& asked) {
  const Range range = fill_in(section, asked);
  std::vector<Group> groups;
  for (const Shape& shape : range.shapes) {
    for (const Pass pass : range.passes) {
      const Group contests = contests_of(section, range, shape, pass);
      if (!contests.empty()) groups.push_back(contests);
    }
  }
  check(!groups.empty(), "attention_bench", "section ", section.name,
        " has nothing to time for these --impl and --passes; leave them out to take its own");
  return groups;
}

std::vector<Row> run_section(const Section& section, const std::vector<Group>& groups,
                             const MeasureOptions& options) {
  std::vector<Row> rows;
  for (const Group& contests : groups) {
    const Case& what = contests.front().what;
    std::fprintf(stderr, "%s: %s %s ...\n", section.name.c_str(), name(what.shape).c_str(),
                 name(what.pass).c_str());
    const std::vector<Row> more = measure(contests, options);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  for (Row& row : rows) row.section = section.name;
  compare_with_rivals(section, rows);
  return rows;
}

}  // namespace mala::bench
