"""How long a call takes, and tables of that."""

import statistics
import time
from collections.abc import Callable

import torch


def milliseconds(call: Callable[[], object], device: torch.device, seconds: float) -> float:
    """The median of calls that together take about so long; the first two are for warming up."""
    times: list[float] = []
    begin = time.perf_counter()
    for i in range(1000):
        start = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        if i >= 2:
            times.append(time.perf_counter() - start)
        if len(times) >= 3 and time.perf_counter() - begin > seconds:
            break
    return 1000 * statistics.median(times)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Columns of even widths, numbers to the right."""
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) if i == 0 else cell.rjust(width)
                  for i, (cell, width) in enumerate(zip(line, widths)))
        for line in lines
    )
