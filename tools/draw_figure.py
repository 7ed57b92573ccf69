#!/usr/bin/env python3
"""Draws README's picture, time per token against tokens, from a sweep in bench/results/."""

import argparse
import csv
import math
import pathlib
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH, HEIGHT = 860, 440
LEFT, RIGHT, TOP, BOTTOM = 64, 206, 78, 58  # margins; the labels of the lines stand at the right
LABEL_GAP = 40  # pixels between two labels, each of two lines

SERIES = {  # impl in the file: label, then what it is
    "sdpa": ("softmax", "PyTorch SDPA"),
    "published": ("MALA as published", "PyTorch, op by op"),
    "mala": ("MALA, this library", "one fused operator"),
}
THEMES = {
    "light": {"text": "#1f2328", "soft": "#59636e", "grid": "#d8dee4", "halo": "#ffffff",
              "sdpa": "#cf222e", "published": "#9a6700", "mala": "#0969da"},
    "dark": {"text": "#f0f6fc", "soft": "#9198a1", "grid": "#30363d", "halo": "#0d1117",
             "sdpa": "#ff7b72", "published": "#e3b341", "mala": "#58a6ff"},
}


def read_sweep(path):
    """Comment lines without their '#', and {impl: [(tokens, microseconds per token), ...]}."""
    lines = path.read_text().splitlines()
    notes = [line[2:] for line in lines if line.startswith("# ")]
    points = {impl: [] for impl in SERIES}
    for row in csv.DictReader(line for line in lines if not line.startswith("#")):
        one_head = row["batch"] == row["heads"] == "1" and row["pass"] == "forward"
        if one_head and row["impl"] in points:
            tokens = int(row["tokens"])
            points[row["impl"]].append((tokens, 1e3 * float(row["ms"]) / tokens))
    points = {impl: sorted(line) for impl, line in points.items() if line}
    if any(len(line) < 2 for line in points.values()) or "mala" not in points:
        sys.exit(f"[draw_figure] {path} has no sweep of one head; write one with "
                 "attention_bench --sweep --csv FILE")
    return notes, points


class Axes:
    """Places tokens and microseconds on logarithmic axes."""

    def __init__(self, points):
        tokens = [t for line in points.values() for t, _ in line]
        times = [us for line in points.values() for _, us in line]
        self.tokens = (min(tokens), max(tokens))
        self.times = (min(times) / 1.8, max(times) * 1.8)

    def x(self, tokens):
        low, high = map(math.log2, self.tokens)
        return LEFT + (math.log2(tokens) - low) / (high - low) * (WIDTH - LEFT - RIGHT)

    def y(self, us):
        low, high = map(math.log10, self.times)
        return HEIGHT - BOTTOM - (math.log10(us) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def text(x, y, words, **attributes):
    given = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{given}>{escape(words)}</text>'


def number(us):
    return f"{us:.0f}" if us >= 10 else f"{us:.1f}" if us >= 1 else f"{us:.2f}"


def draw_grid(axes, theme):
    parts = [f'<path d="M{LEFT} {HEIGHT - BOTTOM}H{WIDTH - RIGHT}" stroke="{theme["soft"]}"/>']
    first, last = map(math.log10, axes.times)
    for decade in range(math.ceil(first), math.floor(last) + 1):
        y = axes.y(10.0**decade)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{theme["grid"]}"/>')
        parts.append(text(LEFT - 10, y + 4, f"{10.0**decade:g}", fill=theme["soft"],
                          text_anchor="end"))
    tokens = axes.tokens[0]
    while tokens <= axes.tokens[1]:
        label = f"{tokens // 1024}k" if tokens % 1024 == 0 else str(tokens)
        parts.append(text(axes.x(tokens), HEIGHT - BOTTOM + 22, label, fill=theme["soft"],
                          text_anchor="middle"))
        tokens *= 2
    parts.append(text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 46, "tokens",
                      fill=theme["soft"], text_anchor="middle"))
    return parts


def draw_line(axes, impl, line, theme):
    places = [(axes.x(tokens), axes.y(us)) for tokens, us in line]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    width = 3.5 if impl == "mala" else 2.2
    parts = [f'<polyline points="{path}" fill="none" stroke="{theme[impl]}" '
             f'stroke-width="{width}" stroke-linejoin="round"/>']
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width + 1:.1f}" fill="{theme[impl]}" '
              f'stroke="{theme["halo"]}" stroke-width="1.5"/>' for x, y in places]
    return parts


def label_heights(axes, points):
    """The height of each line's label: that of its last point, moved apart from its neighbours."""
    heights, above = {}, -math.inf
    for impl in sorted(points, key=lambda name: axes.y(points[name][-1][1])):
        above = heights[impl] = max(axes.y(points[impl][-1][1]), above + LABEL_GAP)
    return heights


def draw_label(axes, impl, line, y, theme):
    name, what = SERIES[impl]
    x, us = axes.x(line[-1][0]) + 14, line[-1][1]
    return [text(x, y - 1, name, fill=theme[impl], font_weight=600),
            text(x, y + 15, f"{number(us)} µs · {what}", fill=theme["soft"], font_size=12)]


def draw(notes, points, theme):
    axes = Axes(points)
    machine = next((note for note in notes if note.startswith("machine: ")), "machine: unknown")
    head = [text(LEFT - 34, 30, "Time per token, in microseconds", fill=theme["text"],
                 font_size=19, font_weight=600),
            text(LEFT - 34, 52, "one head of 64, float32, forward; " + machine.split(": ", 1)[1],
                 fill=theme["soft"], font_size=13)]
    parts = head + draw_grid(axes, theme)
    for impl in SERIES:
        if impl in points:
            parts += draw_line(axes, impl, points[impl], theme)
    for impl, y in label_heights(axes, points).items():
        parts += draw_label(axes, impl, points[impl], y, theme)
    spoken = "; ".join(f"{SERIES[impl][0]} {number(line[-1][1])} at {line[-1][0]} tokens"
                       for impl, line in points.items())
    opening = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
               f'width="{WIDTH}" height="{HEIGHT}" role="img" font-size="14" '
               "font-family=\"-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, "
               'sans-serif">')
    title = f"<title>Microseconds per token: {escape(spoken)}</title>"
    return "\n".join([opening, title, *parts, "</svg>", ""])


def newest_sweep():
    files = sorted((ROOT / "bench/results").glob("*_sweep.csv"))
    if not files:
        sys.exit("[draw_figure] bench/results has no *_sweep.csv; run bench/record.sh first")
    return files[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", nargs="?", type=pathlib.Path,
                        help="a CSV of attention_bench --sweep (the newest in bench/results)")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "docs/pictures",
                        help="where time_per_token_{light,dark}.svg go (docs/pictures)")
    arguments = parser.parse_args()
    notes, points = read_sweep(arguments.sweep or newest_sweep())
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, theme in THEMES.items():
        path = arguments.folder / f"time_per_token_{name}.svg"
        path.write_text(draw(notes, points, theme))
        print(path)


if __name__ == "__main__":
    main()
