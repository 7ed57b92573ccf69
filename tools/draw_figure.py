#!/usr/bin/env python3
"""Draws README's picture, time per token against tokens, from a sweep in bench/results/."""

import argparse
import math
import pathlib
import sys

import chart

WIDTH, HEIGHT = 860, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 206, 78, 58  # margins; the labels of the lines stand at the right
LABEL_GAP = 40  # pixels between two labels, each of two lines

SERIES = {  # impl in the file: label, what it is, colour
    "sdpa": ("softmax", "PyTorch SDPA", "red"),
    "published": ("MALA as published", "PyTorch, op by op", "amber"),
    "mala": ("MALA, this library", "one fused operator", "blue"),
}


def read_sweep(path):
    """Comment lines, and {impl: [(tokens, microseconds per token), ...]}."""
    notes, rows = chart.read_table(path)
    points = {impl: [] for impl in SERIES}
    for row in rows:
        one_head = row["batch"] == row["heads"] == "1" and row["pass"] == "forward"
        if one_head and row["name"] == "attention" and row["impl"] in points:
            tokens = int(row["tokens"])
            points[row["impl"]].append((tokens, 1e3 * float(row["ms"]) / tokens))
    points = {impl: sorted(line) for impl, line in points.items() if line}
    if any(len(line) < 2 for line in points.values()) or "mala" not in points:
        sys.exit(f"[draw_figure] {path} has no sweep of one head; write one with "
                 "attention_bench --sweep --csv FILE")
    return notes, points


def make_panel(points):
    tokens = [t for line in points.values() for t, _ in line]
    times = [us for line in points.values() for _, us in line]
    return chart.Panel((LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM), (min(tokens), max(tokens)),
                       (min(times) / 1.8, max(times) * 1.8), logarithmic=True)


def decades(panel):
    first, last = map(math.log10, panel.values)
    return [10.0**decade for decade in range(math.ceil(first), math.floor(last) + 1)]


def number(us):
    return f"{us:.0f}" if us >= 10 else f"{us:.1f}" if us >= 1 else f"{us:.2f}"


def label_heights(panel, points):
    """The height of each line's label: that of its last point, moved apart from its neighbours."""
    heights, above = {}, -math.inf
    for impl in sorted(points, key=lambda name: panel.y(points[name][-1][1])):
        above = heights[impl] = max(panel.y(points[impl][-1][1]), above + LABEL_GAP)
    return heights


def draw_label(panel, impl, line, y, theme):
    name, what, colour = SERIES[impl]
    x, us = panel.x(line[-1][0]) + 14, line[-1][1]
    return [chart.text(x, y - 1, name, fill=theme[colour], font_weight=600),
            chart.text(x, y + 15, f"{number(us)} µs · {what}", fill=theme["soft"], font_size=12)]


def draw(notes, points, theme):
    panel = make_panel(points)
    parts = chart.draw_title("Time per token, in microseconds",
                             "one head of 64, float32, forward; " + chart.machine_of(notes), theme)
    parts += chart.draw_grid(panel, decades(panel), theme)
    for impl, (_, _, colour) in SERIES.items():
        if impl in points:
            width = 3.5 if impl == "mala" else 2.2
            parts += chart.draw_line(panel, points[impl], theme[colour], width, theme)
    for impl, y in label_heights(panel, points).items():
        parts += draw_label(panel, impl, points[impl], y, theme)
    spoken = "; ".join(f"{SERIES[impl][0]} {number(line[-1][1])} at {line[-1][0]} tokens"
                       for impl, line in points.items())
    return chart.picture((WIDTH, HEIGHT), f"Microseconds per token: {spoken}", parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", nargs="?", type=pathlib.Path,
                        help="a CSV of attention_bench --sweep (the newest in bench/results)")
    parser.add_argument("--folder", type=pathlib.Path, default=chart.ROOT / "docs/pictures",
                        help="where time_per_token_{light,dark}.svg go (docs/pictures)")
    arguments = parser.parse_args()
    notes, points = read_sweep(arguments.sweep or chart.newest_table("draw_figure", "sweep"))
    chart.write_pictures(arguments.folder, "time_per_token",
                         lambda theme: draw(notes, points, theme))


if __name__ == "__main__":
    main()
