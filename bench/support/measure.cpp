// Plans rows, compares results and lets the right ones take turns.
#include "bench/support/measure.h"

#include "bench/support/contenders.h"
#include "bench/support/limit.h"

namespace mala::bench {

namespace {

// Softmax above this many scores takes seconds a run on a few cores.
constexpr double kMostScores = 1.5e9;

bool takes_long(const std::string& impl, const Shape& shape) {
  const double heads = static_cast<double>(shape.batch * shape.heads);
  const double tokens = static_cast<double>(shape.tokens);
  return impl == "sdpa" && heads * tokens * tokens > kMostScores;
}

std::vector<Row> plan_rows(const std::vector<Contest>& contests, bool all) {
  std::vector<Row> rows;
  for (const Contest& contest : contests) {
    for (const std::string& impl : contest.impls) {
      const bool skip = takes_long(impl, contest.what.shape) && !all;
      rows.push_back({contest.what, impl, skip ? Outcome::kSkipped : Outcome::kTimed});
    }
  }
  return rows;
}

// A row that takes part, and how.
struct Starter {
  Row* row;
  Contender contender;
};

// Those of one case are made together, since they share its inputs and what is expected of them.
std::vector<Starter> line_up(std::vector<Row>& rows) {
  std::vector<Starter> starters;
  for (size_t first = 0, next = 0; first < rows.size(); first = next) {
    std::vector<Row*> wanted;
    std::vector<std::string> impls;
    for (; next < rows.size() && rows[next].what == rows[first].what; ++next) {
      if (rows[next].outcome == Outcome::kSkipped) continue;
      wanted.push_back(&rows[next]);
      impls.push_back(rows[next].impl);
    }
    if (impls.empty()) continue;
    const std::vector<Contender> contenders = make_contenders(rows[first].what, impls);
    for (size_t i = 0; i < wanted.size(); ++i) starters.push_back({wanted[i], contenders[i]});
  }
  return starters;
}

// Wrong results have no speed.
void send_away_wrong_ones(std::vector<Starter>& starters) {
  for (const Starter& starter : starters) {
    starter.row->error = starter.contender.error;
    starter.row->bytes = starter.contender.bytes;
    if (!starter.contender.right) starter.row->outcome = Outcome::kWrong;
  }
  std::erase_if(starters, [](const Starter& starter) { return !starter.contender.right; });
}

}  // namespace

std::vector<Row> measure(const std::vector<Contest>& contests, const MeasureOptions& options) {
  std::vector<Row> rows = plan_rows(contests, options.all);
  std::vector<Starter> starters = line_up(rows);
  send_away_wrong_ones(starters);
  const Limit limit = find_limit(contests.front().what);
  std::vector<std::function<void()>> calls;
  for (const Starter& starter : starters) calls.push_back(starter.contender.run);
  calls.push_back(limit.burst);
  const std::vector<double> ms = time_in_turns(calls, options.timing);
  for (size_t i = 0; i < starters.size(); ++i) {
    starters[i].row->ms = ms[i] / static_cast<double>(starters[i].contender.passes);
  }
  for (Row& row : rows) row.limit_ms = limit.ms(row.what, ms.back());
  return rows;
}

}  // namespace mala::bench
