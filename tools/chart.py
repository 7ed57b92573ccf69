"""Lines over numbers of tokens, as SVG for light and dark pages: what our pictures share."""

import csv
import math
import pathlib
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
THEMES = {
    "light": {"text": "#1f2328", "soft": "#59636e", "grid": "#d8dee4", "halo": "#ffffff",
              "red": "#cf222e", "amber": "#9a6700", "blue": "#0969da"},
    "dark": {"text": "#f0f6fc", "soft": "#9198a1", "grid": "#30363d", "halo": "#0d1117",
             "red": "#ff7b72", "amber": "#e3b341", "blue": "#58a6ff"},
}


def read_table(path):
    """The comment lines of a CSV of attention_bench without their '#', and its rows."""
    lines = path.read_text().splitlines()
    notes = [line[2:] for line in lines if line.startswith("# ")]
    return notes, list(csv.DictReader(line for line in lines if not line.startswith("#")))


def newest_table(script, ending):
    """The last of bench/results by name, hence by date."""
    files = sorted((ROOT / "bench/results").glob(f"*_{ending}.csv"))
    if not files:
        sys.exit(f"[{script}] bench/results has no *_{ending}.csv; run bench/record.sh first")
    return files[-1]


def machine_of(notes):
    machine = next((note for note in notes if note.startswith("machine: ")), "machine: unknown")
    return machine.split(": ", 1)[1]


class Panel:
    """A box (left, top, right, bottom) of pixels with logarithmic tokens to the right."""

    def __init__(self, box, tokens, values, logarithmic=False):
        self.left, self.top, self.right, self.bottom = box
        self.tokens, self.values, self.logarithmic = tokens, values, logarithmic

    def x(self, tokens):
        low, high = map(math.log2, self.tokens)
        return self.left + (math.log2(tokens) - low) / (high - low) * (self.right - self.left)

    def y(self, value):
        low, high = map(math.log10, self.values) if self.logarithmic else self.values
        place = math.log10(value) if self.logarithmic else value
        return self.bottom - (place - low) / (high - low) * (self.bottom - self.top)


def text(x, y, words, **attributes):
    given = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:.1f}" y="{y:.1f}"{given}>{escape(words)}</text>'


def tokens_name(tokens):
    for size, letter in ((1 << 20, "M"), (1 << 10, "k")):
        if tokens % size == 0:
            return f"{tokens // size}{letter}"
    return str(tokens)


def draw_grid(panel, ticks, theme, step=2):
    """Lines at the ticks, and the number of tokens at each power of `step`."""
    parts = [f'<path d="M{panel.left} {panel.bottom}H{panel.right}" stroke="{theme["soft"]}"/>']
    for tick in ticks:
        y = panel.y(tick)
        parts.append(f'<path d="M{panel.left} {y:.1f}H{panel.right}" stroke="{theme["grid"]}"/>')
        parts.append(text(panel.left - 10, y + 4, f"{tick:g}", fill=theme["soft"],
                          text_anchor="end"))
    tokens = panel.tokens[0]
    while tokens <= panel.tokens[1]:
        parts.append(text(panel.x(tokens), panel.bottom + 22, tokens_name(tokens),
                          fill=theme["soft"], text_anchor="middle"))
        tokens *= step
    parts.append(text((panel.left + panel.right) / 2, panel.bottom + 46, "tokens",
                      fill=theme["soft"], text_anchor="middle"))
    return parts


def draw_line(panel, line, colour, width, theme):
    """`line` is a list of (tokens, value)."""
    places = [(panel.x(tokens), panel.y(value)) for tokens, value in line]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    parts = [f'<polyline points="{path}" fill="none" stroke="{colour}" '
             f'stroke-width="{width}" stroke-linejoin="round"/>']
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{width + 1:.1f}" fill="{colour}" '
              f'stroke="{theme["halo"]}" stroke-width="1.5"/>' for x, y in places]
    return parts


def draw_title(words, below, theme):
    return [text(30, 30, words, fill=theme["text"], font_size=19, font_weight=600),
            text(30, 52, below, fill=theme["soft"], font_size=13)]


def picture(size, spoken, parts):
    """The whole file; `spoken` is for those who do not see it."""
    width, height = size
    opening = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
               f'width="{width}" height="{height}" role="img" font-size="14" '
               "font-family=\"-apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, "
               'sans-serif">')
    return "\n".join([opening, f"<title>{escape(spoken)}</title>", *parts, "</svg>", ""])


def write_pictures(folder, name, draw):
    """Writes name_light.svg and name_dark.svg as draw(theme) gives them."""
    folder.mkdir(parents=True, exist_ok=True)
    for theme, colours in THEMES.items():
        path = folder / f"{name}_{theme}.svg"
        path.write_text(draw(colours))
        print(path)
