#!/usr/bin/env python3
"""Draws the accuracy of models that differ in their attention alone, from a table of mixers in bench/results/."""

import argparse
import pathlib

import chart

WIDTH = 860
LEFT, TOP, ROW, GAP = 150, 100, 26, 46
COLUMNS = ((LEFT, 430), (580, 830))  # from left to right, in pixels
NAMES = {"softmax": "softmax", "mala": "MALA, published", "mala_balanced": "MALA, balanced",
         "linear": "linear", "inline": "InLine"}
MODELS = {"vit_n": "plain ViT", "mavit_n": "MAViT"}
DATA = {"cifar10": "CIFAR-10", "tinyimagenet50": "Tiny-ImageNet (50)"}


def read_accuracies(path):
    """Comment lines, and {(model, data): {mixer: [top-1 in percent of each seed]}}."""
    notes, rows = chart.read_table(path)
    panels = {}
    for row in rows:
        if row["mixer"] in NAMES:
            mixers = panels.setdefault((row["model"], row["data"]), {})
            mixers.setdefault(row["mixer"], []).append(100 * float(row["top1"]))
    return notes, panels


def draw_panel(box, title, mixers, theme):
    """A row for each mixer: a dot for each seed, and a line at their mean."""
    left, right, top = box
    values = [value for seeds in mixers.values() for value in seeds]
    low, high = min(values) - 0.5, max(values) + 0.5

    def x(value):
        return left + (value - low) / (high - low) * (right - left)

    bottom = top + ROW * len(NAMES)
    parts = [chart.text(left, top - 12, title, fill=theme["text"], font_weight=600)]
    for tick in range(int(low) + 1, int(high) + 1):
        parts.append(f'<path d="M{x(tick):.1f} {top}V{bottom}" stroke="{theme["grid"]}"/>')
        parts.append(chart.text(x(tick), bottom + 17, f"{tick}", fill=theme["soft"], font_size=12,
                                text_anchor="middle"))
    for i, mixer in enumerate(name for name in NAMES if name in mixers):
        y = top + ROW * (i + 0.5)
        colour = theme["blue" if mixer.startswith("mala") else "amber"]
        mean = sum(mixers[mixer]) / len(mixers[mixer])
        parts.append(chart.text(left - 10, y + 4, NAMES[mixer], fill=colour, font_size=12,
                                text_anchor="end"))
        parts.append(f'<path d="M{x(mean):.1f} {y - 8:.1f}v16" stroke="{colour}" stroke-width="3"/>')
        parts += [f'<circle cx="{x(value):.1f}" cy="{y:.1f}" r="4" fill="none" stroke="{colour}" '
                  'stroke-width="1.5"/>' for value in mixers[mixer]]
    return parts


def spoken(panels):
    said = []
    for (model, data), mixers in panels.items():
        means = ", ".join(f"{NAMES[mixer]} {sum(seeds) / len(seeds):.1f}"
                          for mixer, seeds in mixers.items())
        said.append(f"{MODELS[model]} on {DATA[data]}: {means}")
    return "Top-1 accuracy in percent. " + "; ".join(said)


def draw(notes, panels, theme):
    parts = chart.draw_title("Only the attention exchanged",
                             "top-1 in percent after short runs, circles are seeds; "
                             + chart.machine_of(notes).split(";")[0], theme)
    for i, ((model, data), mixers) in enumerate(panels.items()):
        left, right = COLUMNS[i % 2]
        top = TOP + i // 2 * (ROW * len(NAMES) + GAP + 20)
        parts += draw_panel((left, right, top), f"{MODELS[model]}, {DATA[data]}", mixers, theme)
    rows = (len(panels) + 1) // 2
    height = TOP + rows * (ROW * len(NAMES) + GAP + 20)
    return chart.picture((WIDTH, height), spoken(panels), parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mixers", nargs="?", type=pathlib.Path,
                        help="a CSV of runs (the newest *_gpu_mixers.csv in bench/results)")
    parser.add_argument("--folder", type=pathlib.Path, default=chart.ROOT / "docs/pictures",
                        help="where mixers_{light,dark}.svg go (docs/pictures)")
    arguments = parser.parse_args()
    path = arguments.mixers or chart.newest_table("draw_mixers", "gpu_mixers")
    notes, panels = read_accuracies(path)
    chart.write_pictures(arguments.folder, "mixers", lambda theme: draw(notes, panels, theme))


if __name__ == "__main__":
    main()
