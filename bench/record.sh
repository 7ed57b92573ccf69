#!/usr/bin/env bash
# Writes dated tables into bench/results: the default shapes, and the sweep of README's picture.
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
day=$(date -u +%F)
results=bench/results
"$programs/attention_bench" --commit "$commit" --csv "$results/${day}_attention.csv"
"$programs/attention_bench" --commit "$commit" --csv "$results/${day}_sweep.csv" --sweep --all
python3 tools/draw_figure.py "$results/${day}_sweep.csv"
