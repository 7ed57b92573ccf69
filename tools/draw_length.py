#!/usr/bin/env python3
"""Draws time per token and memory against tokens, from a table of length in bench/results/."""

import argparse
import math
import pathlib
import sys

import chart

WIDTH, HEIGHT = 860, 400
TOP, BOTTOM = 128, 58  # margins
TIME_BOX = (64, TOP, 416, HEIGHT - BOTTOM)
MEMORY_BOX = (496, TOP, 830, HEIGHT - BOTTOM)
LEGEND_Y = 82

SERIES = {"bidirectional": "amber", "causal": "blue"}  # name in the file: colour
TENSORS = "the tensors q, k, v and out"  # the line that memory is seen against
COLOURS = {**SERIES, TENSORS: "soft"}
MIB = 1 << 20


def tensor_bytes(row):
    return 4 * 4 * math.prod(int(row[size]) for size in ("batch", "heads", "tokens", "dim"))


def read_lengths(path):
    """Comment lines, and for time and memory {name: [(tokens, nanoseconds or MiB), ...]}."""
    notes, rows = chart.read_table(path)
    times, memory = {}, {}
    for row in rows:
        kernels = row["impl"] == "kernels" and row["pass"] == "forward"
        if kernels and row["dtype"] == "float32" and row["name"] in SERIES:
            tokens = int(row["tokens"])
            times.setdefault(row["name"], []).append((tokens, 1e6 * float(row["ms"]) / tokens))
            memory.setdefault(row["name"], []).append((tokens, int(row["memory_bytes"]) / MIB))
            if row["name"] == "causal":
                memory.setdefault(TENSORS, []).append((tokens, tensor_bytes(row) / MIB))
    if set(times) != set(SERIES) or any(len(line) < 2 for line in times.values()):
        sys.exit(f"[draw_length] {path} has not both forms at several lengths; write it with "
                 "attention_bench --section length --csv FILE")
    return notes, times, memory


def round_step(highest):
    """A step of 1, 2 or 5 times a power of ten that cuts the axis into three to seven."""
    power = 10.0 ** math.floor(math.log10(highest / 3))
    return next(step for step in (5 * power, 2 * power, power) if highest / step >= 3)


def time_axis(highest):
    """From 0, so that what stays the same looks level and nothing else does."""
    step = round_step(highest)
    return (0, highest), [step * i for i in range(1, math.floor(highest / step) + 1)]


def memory_axis(lowest, highest):
    first, last = math.floor(math.log10(lowest)), math.floor(math.log10(highest))
    return (10.0**first, 2 * highest), [10.0**decade for decade in range(first + 1, last + 1)]


def draw_panel(box, title, lines, theme, logarithmic=False):
    tokens = [t for line in lines.values() for t, _ in line]
    values = [value for line in lines.values() for _, value in line]
    axis = memory_axis(min(values), max(values)) if logarithmic else time_axis(1.25 * max(values))
    panel = chart.Panel(box, (min(tokens), max(tokens)), axis[0], logarithmic)
    parts = [chart.text(box[0], box[1] - 14, title, fill=theme["text"], font_weight=600)]
    parts += chart.draw_grid(panel, axis[1], theme, step=4)
    for name, line in lines.items():
        parts += chart.draw_line(panel, sorted(line), theme[COLOURS[name]], 2.6, theme)
    return parts


def draw_legend(theme):
    parts, x = [], 30
    for name, colour in COLOURS.items():
        parts.append(f'<circle cx="{x + 5}" cy="{LEGEND_Y - 5}" r="5" fill="{theme[colour]}"/>')
        parts.append(chart.text(x + 18, LEGEND_Y, name, fill=theme[colour], font_weight=600))
        x += 44 + 8 * len(name)
    return parts


def spoken(times, memory):
    said = []
    for name in SERIES:
        (few, first), (many, last) = min(times[name]), max(times[name])
        said.append(f"{name} {first:.0f} nanoseconds at {few} tokens and {last:.0f} at {many}, "
                    f"memory {min(memory[name])[1]:.1f} and {max(memory[name])[1]:.1f} MiB")
    return "Time per token and memory: " + "; ".join(said)


def draw(notes, times, memory, theme):
    parts = chart.draw_title("Time per token and memory, by length",
                             "one head of 64, float32, forward; " + chart.machine_of(notes), theme)
    parts += draw_legend(theme)
    parts += draw_panel(TIME_BOX, "Time per token, nanoseconds", times, theme)
    parts += draw_panel(MEMORY_BOX, "Scratch and state, MiB", memory, theme, True)
    return chart.picture((WIDTH, HEIGHT), spoken(times, memory), parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lengths", nargs="?", type=pathlib.Path,
                        help="a CSV of attention_bench --section length (the newest in "
                             "bench/results)")
    parser.add_argument("--folder", type=pathlib.Path, default=chart.ROOT / "docs/pictures",
                        help="where length_{light,dark}.svg go (docs/pictures)")
    arguments = parser.parse_args()
    path = arguments.lengths or chart.newest_table("draw_length", "length")
    notes, times, memory = read_lengths(path)
    chart.write_pictures(arguments.folder, "length",
                         lambda theme: draw(notes, times, memory, theme))


if __name__ == "__main__":
    main()
