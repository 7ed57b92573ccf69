#!/usr/bin/env bash
# Writes dated tables into bench/results, one for each section of attention_bench and one for the
# sweep of README's picture, and draws the pictures.
# Usage: bench/record.sh [FOLDER OF attention_bench] (build/release/bin, else build/dev/bin)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

programs=${1:-build/release/bin}
[ $# -gt 0 ] || [ -x "$programs/attention_bench" ] || programs=build/dev/bin
if [ ! -x "$programs/attention_bench" ]; then
  echo "[record] no attention_bench in $programs; build it: cmake --preset release &&" \
    "cmake --build --preset release" >&2
  exit 1
fi

commit=$(git describe --always --dirty 2>/dev/null || echo "not committed")
results=bench/results/$(date -u +%F)

# record TABLE [ARGUMENT...]: a run of attention_bench, into the table of that name.
record() {
  local table=$1
  shift
  "$programs/attention_bench" --commit "$commit" --csv "${results}_$table.csv" "$@"
}

record attention --section shapes
for section in causal packed decode types length; do
  record "$section" --section "$section"
done
record sweep --sweep --all
python3 tools/draw_figure.py "${results}_sweep.csv"
python3 tools/draw_length.py "${results}_length.csv"
