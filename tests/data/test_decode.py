"""Pictures of every kind, read by us and by Pillow."""

import os
import struct
import subprocess
import zlib

import numpy as np
import pytest
from conftest import picture, pillow
from PIL import Image

# Both use libjpeg-turbo or libwebp, but of different versions, whose inverse transforms may round
# to the neighbouring level.
ONE_LEVEL = 1


def assert_close(ours, theirs, levels=0):
    assert ours.shape == theirs.shape
    assert abs(ours - theirs).max() <= levels


JPEG = {
    "plain": ("RGB", {}),
    "best": ("RGB", {"quality": 95, "subsampling": 0}),
    "progressive": ("RGB", {"progressive": True}),
    "grey": ("L", {}),
    "CMYK": ("CMYK", {"quality": 90}),
    "thin": ("RGB", {"quality": 30, "subsampling": 2, "restart_marker_rows": 1}),
}


@pytest.mark.parametrize("kind", JPEG)
def test_jpeg(reader, kind):
    mode, options = JPEG[kind]
    file = reader.save(picture(mode=mode), "a.jpg", **options)
    assert_close(reader.read(file), pillow(file), ONE_LEVEL)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA"])
def test_png(reader, mode):
    file = reader.save(picture(mode=mode), "a.png")
    assert_close(reader.read(file), pillow(file))


def test_png_palettes_of_few_colours_and_with_a_clear_one(reader):
    for colours in (2, 4, 16, 200):
        image = picture().quantize(colours)
        assert_close(reader.read(reader.save(image, "a.png", bits=8)), pillow_of(image))
        file = reader.save(image, "b.png", transparency=1)
        assert_close(reader.read(file), pillow_of(image))


def pillow_of(image):
    return np.asarray(image.convert("RGB")).astype(int)


def test_png_of_sixteen_bits(reader):
    levels = np.arange(61 * 43, dtype=np.uint16).reshape(43, 61) * 24
    file = reader.save(Image.fromarray(levels), "a.png")
    with Image.open(file) as image:
        assert image.mode == "I;16"
    assert_close(reader.read(file), np.repeat((levels >> 8)[:, :, None], 3, axis=2))


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def write_png(file, levels, colour_type, interlaced):
    """Levels of sixteen bits, (height, width, channels), in a form that Pillow does not write."""
    height, width, _ = levels.shape
    adam7 = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2)]
    passes = [*adam7, (1, 0, 2, 1)] if interlaced else [(0, 0, 1, 1)]
    rows = [row for y, x, dy, dx in passes for row in levels[y::dy, x::dx] if row.size > 0]
    body = b"".join(b"\0" + row.astype(">u2").tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 16, colour_type, 0, 0, int(interlaced))
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(body)), chunk(b"IEND", b"")]
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize("colour_type, channels", [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_png_of_sixteen_bits_in_every_colour_type(reader, colour_type, channels, interlaced):
    levels = np.random.default_rng(4).integers(0, 65536, size=(13, 21, channels))
    file = reader.folder / "a.png"
    write_png(file, levels, colour_type, interlaced)
    upper = levels[:, :, : 3 if channels > 2 else 1] >> 8
    assert_close(reader.read(file), np.broadcast_to(upper, (13, 21, 3)))
    if colour_type in (2, 6):
        assert_close(pillow(file), upper)


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
@pytest.mark.parametrize("lossless", [False, True])
def test_webp(reader, mode, lossless):
    file = reader.save(picture(mode=mode), "a.webp", lossless=lossless, exact=True)
    assert_close(reader.read(file), pillow(file), 0 if lossless else ONE_LEVEL)


def test_the_first_frame_of_a_film(reader):
    frames = [picture().rotate(turn) for turn in (0, 90, 180)]
    file = reader.save(
        frames[0], "a.webp", save_all=True, append_images=frames[1:], lossless=True
    )
    assert_close(reader.read(file), pillow_of(frames[0]))
    file = reader.save(frames[0], "a.png", save_all=True, append_images=frames[1:])
    assert_close(reader.read(file), pillow_of(frames[0]))


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp"])
@pytest.mark.parametrize("orientation", range(0, 10))
def test_orientation(reader, name, orientation):
    exif = Image.Exif()
    exif[0x010E] = "a description before it"
    exif[0x0112] = orientation
    options = {"lossless": True} if name.endswith("webp") else {}
    file = reader.save(picture(), name, exif=exif, **options)
    assert_close(reader.read(file), pillow(file), ONE_LEVEL)


def test_ppm_and_pgm(reader):
    for mode, name in (("RGB", "a.ppm"), ("L", "a.pgm")):
        file = reader.save(picture(mode=mode), name)
        assert_close(reader.read(file), pillow(file))


@pytest.mark.parametrize("largest", [1, 100, 255, 1000, 65535])
@pytest.mark.parametrize("kind", ["P2", "P3", "P5", "P6"])
def test_ppm_with_any_white(reader, kind, largest):
    channels = 3 if kind in ("P3", "P6") else 1
    levels = np.random.default_rng(2).integers(0, largest + 1, size=(5, 7 * channels))
    header = f"{kind} # a comment\n7\n#another\n5 {largest}\n".encode()
    if kind in ("P2", "P3"):
        body = " ".join(map(str, levels.ravel())).encode() + b"\n"
    else:
        body = levels.astype(">u2" if largest > 255 else "u1").tobytes()
    file = reader.folder / "a.pnm"
    file.write_bytes(header + body)
    wanted = np.floor(levels * 255 / largest + 0.5).astype(int).reshape(5, 7, channels)
    assert_close(reader.read(file), np.broadcast_to(wanted, (5, 7, 3)))


SAVED = {"a.jpg": {}, "b.jpg": {"progressive": True}, "a.png": {}, "a.webp": {}, "a.ppm": {}}


@pytest.mark.parametrize("name", SAVED)
def test_half_a_file(reader, name):
    file = reader.save(picture(), name, **SAVED[name])
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    assert "is cut short" in reader.refusal(file)


def test_other_files(reader):
    file = reader.folder / "a.jpg"
    for contents, words in {
        b"": "is empty",
        b"hello": "no picture of a kind we know",
        b"<!DOCTYPE html>": "a web page",
        b"\xff\xd8": "damaged",
        b"\x89PNG\r\n\x1a\n": "damaged",
        b"RIFF\x04\0\0\0WEBP": "damaged",
        b"P6 0 5 255\n": "0 by 5",
        b"P6 5 5 0\n": "must be 1 to 65535",
        b"P6 99999 99999 255\n": "more than the limit of 100000000",
        b"P6 9000 9000 255\n": "needs 243000001",
        b"P3 1 1 255 1 x 3": "'x' where a number should be",
    }.items():
        file.write_bytes(contents)
        assert words in reader.refusal(file)
    for name, words in (("a.gif", "a GIF"), ("a.bmp", "a BMP"), ("a.tif", "a TIFF")):
        assert words in reader.refusal(reader.save(picture(), name))
    assert "is a folder" in reader.refusal(reader.folder)
    assert "cannot be opened" in reader.refusal(reader.folder / "none.png")


def test_bombs(reader):
    """A few kilobytes that claim more pixels than the limit."""
    tall = Image.new("1", (20000, 20000))
    assert "more than the limit" in reader.refusal(reader.save(tall, "a.png"))
    jpeg = bytearray(reader.save(picture(), "a.jpg").read_bytes())
    frame = jpeg.index(b"\xff\xc0")
    jpeg[frame + 5 : frame + 9] = b"\xff\xdc\xff\xdc"
    file = reader.folder / "b.jpg"
    file.write_bytes(jpeg)
    assert "65500 by 65500" in reader.refusal(file)


def peak_megabytes(reader, file):
    command = [os.environ["MALA_CONVERT_IMAGE"], file, reader.folder / "out.ppm"]
    with subprocess.Popen(command) as program:
        _, program.returncode, usage = os.wait4(program.pid, 0)
    assert program.returncode == 0
    return usage.ru_maxrss / 1024


def test_bombs_beside_the_pixels(reader):
    """Text, profiles and palettes that nothing here asks for unpack to 420 MB."""
    file = reader.save(picture(), "a.png")
    plain = file.read_bytes()
    spread = zlib.compress(b"a" * 7_000_000, 9)
    texts = [chunk(b"zTXt", b"k%d\0\0" % i + spread) for i in range(60)]
    begin = plain.index(b"IDAT") - 4
    bomb = reader.folder / "b.png"
    bomb.write_bytes(plain[:begin] + b"".join(texts) + plain[begin:])
    assert_close(reader.read(bomb), reader.read(file))
    assert peak_megabytes(reader, bomb) < peak_megabytes(reader, file) + 100
