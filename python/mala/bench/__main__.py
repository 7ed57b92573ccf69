"""python -m mala.bench: a table of times, ours beside what one would use otherwise."""

import argparse

import torch

import mala
from mala.bench import models, operator


def size(text: str) -> tuple[int, int, int]:
    parts = tuple(int(part) if part.isdecimal() else 0 for part in text.split("x"))
    if len(parts) != 3 or min(parts) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no size; give batch x height x width, "
                                         "as 64x224x224")
    return parts


def count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 on")
    return int(text)


def head_size(text: str) -> int:
    if count(text) % 8 or count(text) > 256:
        raise argparse.ArgumentTypeError(f"{text} is no head size; give a multiple of 8 up to 256")
    return count(text)


def device_of(text: str) -> str:
    try:
        return str(torch.device(text))
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no device; give cpu or cuda") from error


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m mala.bench", description=__doc__)
    parser.add_argument("--models", action="store_true", help="time models in place of the operator")
    parser.add_argument("--device", type=device_of,
                        default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each measurement")
    parser.add_argument("--tokens", type=count, nargs="+", default=[784, 3136, 12544])
    parser.add_argument("--batch", type=count, default=1)
    parser.add_argument("--heads", type=count, default=2)
    parser.add_argument("--dim", type=head_size, default=64)
    parser.add_argument("--model", choices=mala.list_models(), default="mavit_t",
                        help="which of ours, with --models")
    parser.add_argument("--sizes", type=size, nargs="+", help="of pictures, as 64x224x224")
    parser.add_argument("--others", action=argparse.BooleanOptionalAction, default=True,
                        help="models of timm beside ours")
    parser.add_argument("--compile-others", action=argparse.BooleanOptionalAction, default=True,
                        help="compile those too; it takes most of the time")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32",
                        help="of models")
    arguments = parser.parse_args()
    if arguments.device.startswith("cuda") and not torch.cuda.is_available():
        parser.error("torch finds no GPU; pass --device cpu")
    print((models if arguments.models else operator).run(arguments))


if __name__ == "__main__":
    main()
