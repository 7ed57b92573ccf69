// The paper's test on a real query: the ratio of two of its weights as it grows.
#pragma once

#include <optional>

#include "mala/models/vision/probe.h"
#include "mala/tasks/explain/explain.h"

namespace mala::tasks {

// For a query that becomes up to eight times as long. Of the heads the one whose query is the
// largest as its keys see it, since a small one has little to grow with. None where fewer than two
// keys keep positive weights: a ratio with a negative weight says nothing. `scores` is of one
// query.
std::optional<RatioCurves> ratio_curves(const nn::MapScores& scores);

}  // namespace mala::tasks
