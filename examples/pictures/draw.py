#!/usr/bin/env python3
"""Draws balloons.jpg: two balloons alike, a third that is not, hills and a house.

Something to point at: a look from one red balloon should find the other.
"""

import pathlib

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

WIDTH, HEIGHT, FINE = 640, 480, 3  # drawn finer, then made smaller, for smooth edges


def sky(width, height):
    """Light at the horizon, with clouds of smooth noise."""
    random = np.random.default_rng(7)
    y = np.linspace(0, 1, height)[:, None, None]
    levels = (1 - y) * np.array([72, 138, 212]) + y * np.array([226, 232, 226])
    levels = np.broadcast_to(levels, (height, width, 3)).copy()
    clouds = np.zeros((height, width))
    for cells, strength in ((4, 1.0), (9, 0.55), (20, 0.3), (45, 0.15)):
        noise = Image.fromarray(random.normal(size=(cells // 2 + 2, cells)).astype(np.float32))
        clouds += strength * np.asarray(noise.resize((width, height), Image.BICUBIC))
    cover = np.clip(clouds - 0.35, 0, 1)[..., None] * np.clip(1.2 - 1.6 * y, 0, 1)
    return Image.fromarray((levels * (1 - cover) + 250 * cover).astype(np.uint8))


def hill(draw, base, height, waves, colour):
    x = np.arange(0, WIDTH * FINE + 1, 4)
    y = base - height * sum(np.sin(x / FINE * f + p) * a for f, p, a in waves)
    bottom = [(WIDTH * FINE, HEIGHT * FINE), (0, HEIGHT * FINE)]
    draw.polygon([*zip(x, y), *bottom], fill=colour)


def balloon(image, x, y, radius, colours):
    """Stripes that bend with the sphere, shaded from the upper left, and a basket."""
    x, y, radius = x * FINE, y * FINE, radius * FINE
    size = int(radius * 1.3)
    v, u = np.mgrid[-size:size, -size:size] / radius
    v = np.where(v > 0, v / 1.25, v)  # longer below
    inside = u**2 + v**2 < 1
    around = np.arcsin(np.clip(u / np.sqrt(np.clip(1 - v**2, 1e-3, 1)), -1, 1))
    stripe = np.floor((around / np.pi + 0.5) * 6).astype(int) % len(colours)
    light = np.clip(1.08 - 0.55 * ((u + 0.35) ** 2 + (v + 0.4) ** 2), 0.35, 1.1)[..., None]
    levels = np.clip(np.array(colours)[stripe] * light, 0, 255).astype(np.uint8)
    mask = Image.fromarray((inside * 255).astype(np.uint8))
    draw = ImageDraw.Draw(image)
    basket = y + 1.62 * radius
    for side in (-1, 1):
        draw.line([(x + side * 0.55 * radius, y + 0.95 * radius),
                   (x + side * 0.13 * radius, basket)], fill=(70, 52, 40), width=FINE)
    draw.rectangle([x - 0.15 * radius, basket, x + 0.15 * radius, basket + 0.22 * radius],
                   fill=(122, 78, 40))
    image.paste(Image.fromarray(levels), (int(x - size), int(y - size)), mask)


def house(draw, x, y, s):
    x, y, s = x * FINE, y * FINE, s * FINE
    draw.rectangle([x, y, x + 1.3 * s, y + s], fill=(236, 222, 196))
    draw.polygon([(x - 0.15 * s, y), (x + 0.65 * s, y - 0.75 * s), (x + 1.45 * s, y)],
                 fill=(150, 58, 44))
    draw.rectangle([x + 0.5 * s, y + 0.4 * s, x + 0.8 * s, y + s], fill=(92, 58, 36))
    for left in (0.12, 0.92):
        draw.rectangle([x + left * s, y + 0.3 * s, x + (left + 0.25) * s, y + 0.58 * s],
                       fill=(96, 140, 168))


def tree(draw, x, y, s):
    x, y, s = x * FINE, y * FINE, s * FINE
    draw.rectangle([x - 0.07 * s, y, x + 0.07 * s, y + 0.5 * s], fill=(84, 58, 38))
    for dx, dy, r in ((0, -0.3, 0.42), (-0.26, -0.02, 0.34), (0.26, -0.04, 0.34)):
        draw.ellipse([x + (dx - r) * s, y + (dy - r) * s, x + (dx + r) * s, y + (dy + r) * s],
                     fill=(46, 104, 54))


def main():
    image = sky(WIDTH * FINE, HEIGHT * FINE)
    draw = ImageDraw.Draw(image)
    hill(draw, 350 * FINE, 26 * FINE, ((0.011, 0.4, 1), (0.027, 2, 0.3)), (120, 154, 130))
    hill(draw, 385 * FINE, 24 * FINE, ((0.014, 2.2, 1), (0.033, 1, 0.25)), (98, 150, 84))
    red, blue = [(206, 40, 42), (244, 222, 190)], [(38, 92, 170), (242, 206, 70)]
    balloon(image, 215, 130, 62, red)
    balloon(image, 470, 215, 44, red)
    balloon(image, 355, 88, 30, blue)
    draw = ImageDraw.Draw(image)
    hill(draw, 425 * FINE, 14 * FINE, ((0.018, 0.8, 1), (0.05, 0, 0.2)), (74, 128, 58))
    house(draw, 130, 380, 46)
    for x, y, s in ((250, 395, 60), (290, 408, 46), (560, 388, 70)):
        tree(draw, x, y, s)
    image = image.resize((WIDTH, HEIGHT), Image.LANCZOS)
    grain = np.random.default_rng(3).normal(size=(HEIGHT, WIDTH, 1)) * 5
    levels = np.clip(np.asarray(image) + grain, 0, 255).astype(np.uint8)
    image = Image.fromarray(levels).filter(ImageFilter.GaussianBlur(0.4))
    image.save(pathlib.Path(__file__).with_name("balloons.jpg"), quality=88)


if __name__ == "__main__":
    main()
