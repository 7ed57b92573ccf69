#!/usr/bin/env python3
"""The input pipeline beside timm's: the same files, augmentations and number of cores.

    bench/data_bench.py build/release/bin/data_bench [--pictures FOLDER] [--workers 2] [--rounds 3]

Both make the batches of the published recipe from JPEG files: random resized crop to 224 (bicubic),
flip, RandAugment m9-mstd0.5-inc1, noise on a quarter of the pictures, normalised floats. timm's is
its create_transform on Pillow in a torch DataLoader with as many worker processes as ours has
threads. Rounds take turns, so that both meet the same machine. `--mix` adds mixup and CutMix, which
timm does in the main process.

Without --pictures, photographs of about 500 by 375 pixels are put together from those of
../shared/data/voc2012. Needs: pip install timm torchvision, in versions that fit the torch at hand.
"""

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
SIZE = (500, 375)
WARM_UP = 6  # batches before the clock starts: as many are ahead then as when it stops


def need(modules):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        sys.exit(f"data_bench.py: there is no {' and no '.join(missing)}; pip install them first")


def photographs():
    """Real ones, small: their bytes."""
    if not (SHARED / "unpack.py").exists():
        sys.exit(f"data_bench.py: there is no {SHARED}; name a folder of pictures with --pictures")
    spec = importlib.util.spec_from_file_location("unpack", SHARED / "unpack.py")
    unpack = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(unpack)
    for _, _, data in unpack.read_pack(SHARED / "voc2012" / "train_images.mpk"):
        yield data


def make_pictures(folder, count=300):
    """Four photographs side by side have as much detail as one of their size; enlarged they would
    have less, and be quicker to decode."""
    from PIL import Image, ImageOps

    source = photographs()
    quarter = (SIZE[0] // 2, (SIZE[1] + 1) // 2)
    for number in range(count):
        picture = Image.new("RGB", SIZE)
        for x in (0, quarter[0]):
            for y in (0, quarter[1]):
                with Image.open(BytesIO(next(source))) as part:
                    picture.paste(ImageOps.fit(part.convert("RGB"), quarter), (x, y))
        target = folder / f"class{number % 3}"
        target.mkdir(exist_ok=True)
        picture.save(target / f"{number:04}.jpg", quality=92)


def last_line(command):
    """What a program prints last, read as JSON; libraries may have printed something before."""
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def run_ours(arguments, folder):
    command = [arguments.program, folder, "--workers", str(arguments.workers)]
    command += ["--pictures", str(arguments.count), "--batch", str(arguments.batch)]
    command += [] if arguments.mix else ["--no-mix"]
    return last_line(command)


def timm_loader(arguments, folder):
    """One stream without an end of epochs, at which its workers would wait for each other."""
    import torch
    from timm.data import create_transform
    from torchvision.datasets import ImageFolder

    transform = create_transform(
        input_size=224,
        is_training=True,
        color_jitter=0.4,  # as the recipe says; RandAugment turns it off
        auto_augment="rand-m9-mstd0.5-inc1",
        interpolation="bicubic",
        re_prob=0.25,
        re_mode="pixel",
        re_count=1,
    )
    pictures = ImageFolder(folder, transform)
    order = torch.utils.data.RandomSampler(pictures, replacement=True, num_samples=10**9)
    return torch.utils.data.DataLoader(
        pictures, batch_size=arguments.batch, sampler=order, num_workers=arguments.workers
    )


def allow_no_bits():
    """timm asks for none at the highest magnitude, which was black and is refused by newer Pillows."""
    from PIL import ImageOps

    posterize = ImageOps.posterize
    black = [0] * 768
    ImageOps.posterize = lambda image, bits: posterize(image, bits) if bits else image.point(black)


def core_seconds(workers):
    """Of this process and its workers."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ticks = 0
    for worker in workers:
        fields = Path(f"/proc/{worker.pid}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return own.ru_utime + own.ru_stime + ticks / os.sysconf("SC_CLK_TCK")


def run_timm(arguments, folder):
    """In a process of its own, as ours is."""
    command = [sys.executable, "-W", "ignore", __file__, arguments.program, "--timm-on", folder]
    command += ["--workers", str(arguments.workers), "--batch", str(arguments.batch)]
    command += ["--count", str(arguments.count)] + (["--mix"] if arguments.mix else [])
    return last_line(command)


def time_timm(arguments, folder):
    import torch
    from timm.data import Mixup

    allow_no_bits()
    torch.set_num_threads(1)
    mix = Mixup(0.8, 1.0, label_smoothing=0.0, num_classes=3) if arguments.mix else None
    batches = iter(timm_loader(arguments, folder))
    for _ in range(WARM_UP):
        next(batches)
    cores, start, pictures = core_seconds(batches._workers), time.perf_counter(), 0
    while pictures < arguments.count:
        batch, labels = next(batches)
        if mix:
            batch, labels = mix(batch, labels)
        pictures += len(batch)
    seconds = time.perf_counter() - start
    row = {"pictures": pictures, "seconds": seconds}
    print(json.dumps({**row, "core_seconds": core_seconds(batches._workers) - cores}))


def report(name, rows):
    rate = statistics.median(row["pictures"] / row["seconds"] for row in rows)
    cost = statistics.median(1000 * row["core_seconds"] / row["pictures"] for row in rows)
    print(f"{name:6} {rate:9.1f} pictures/s {cost:9.2f} ms of a core each")
    return rate, cost


def compare(arguments, folder):
    files = list(Path(folder).rglob("*.jpg"))
    kilobytes = statistics.mean(file.stat().st_size for file in files) / 1024
    print(f"{len(files)} JPEG files of {kilobytes:.0f} KB on average, {arguments.workers} workers, ")
    print(f"batches of {arguments.batch}, {'with' if arguments.mix else 'without'} mixing, median of"
          f" {arguments.rounds} rounds of {arguments.count} pictures")
    rows = [(run_ours(arguments, folder), run_timm(arguments, folder))
            for _ in range(arguments.rounds)]
    ours, timms = report("mala", [row[0] for row in rows]), report("timm", [row[1] for row in rows])
    print(f"mala makes {ours[0] / timms[0]:.2f} times as many pictures a second, "
          f"each for {timms[1] / ours[1]:.2f} times less work")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the built data_bench")
    parser.add_argument("--pictures", help="a folder with a folder for each class")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--count", type=int, default=1500, help="pictures of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mix", action="store_true", help="mixup and CutMix too")
    parser.add_argument("--timm-on", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    need(["PIL", "torch", "timm", "torchvision"])
    if arguments.timm_on:
        return time_timm(arguments, arguments.timm_on)
    if arguments.pictures:
        return compare(arguments, arguments.pictures)
    with tempfile.TemporaryDirectory() as folder:
        make_pictures(Path(folder))
        compare(arguments, folder)


if __name__ == "__main__":
    main()
