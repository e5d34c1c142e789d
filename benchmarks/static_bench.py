"""Static reading against one `ast.parse` of the same file, and how long a huge file holds up the event loop.

Times are taken in one process, so that the ratios hold on any machine.
"""

from __future__ import annotations

import ast
import asyncio
import random
import sys
import time
from typing import TYPE_CHECKING

from benchmarks.print_table import print_table
from benchmarks.table import Row, median
from fuselight_server.source.document import SourceDocument

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_BLOCK = '''
class Block{n}(nn.Module):
    """One layer: attention and a feed-forward network, each after a norm."""

    def __init__(self, dim: int, heads: int = 8, *, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm, self.heads = nn.LayerNorm(dim), heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.drop = nn.Dropout(dropout)

    # fuselight: Block{n}(64)(f32[2, 16, 64])
    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        batch, length, dim = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1) for part in self.qkv(self.norm(x)).chunk(3, dim=-1))
        if mask is not None and mask.any():
            q = q.masked_fill(mask[:, None, None, :] == 0, float("-inf"))
        weights = torch.softmax(q @ k.transpose(-2, -1) / (dim // self.heads) ** 0.5, dim=-1)
        return x + self.drop(self.out((weights @ v).reshape(batch, length, dim)))


@torch.compile(dynamic=True)
def step{n}(model: nn.Module, x: torch.Tensor, *, scale: float = {n}.5) -> dict[str, torch.Tensor]:
    losses = {{name: (value * scale).pow(2).mean() for name, value in zip("abc", model(x).unbind(-1))}}
    for name, loss in losses.items():
        if loss.isnan().any():
            raise ValueError(f"{{name}} is not a number: {{loss!r:>20}}")
    return losses


fast{n} = torch.compile(Block{n}(64))
'''


def source(lines: int) -> str:
    """A file of modules and compiled functions, `lines` long."""
    written = ["import torch", "from torch import nn"]
    count = 0
    while len(written) < lines:
        written += _BLOCK.format(n=count).split("\n")
        count += 1
    cut = written[:lines]
    return "\n".join(cut[: max(n for n, line in enumerate(cut) if line.startswith("fast")) + 1]) + "\n"


def keystrokes(document: SourceDocument, count: int) -> list[float]:
    """Seconds from each keystroke to the new reading: letters, brackets and line ends, all over the file."""
    chosen = random.Random(7)  # noqa: S311 - the same keystrokes each time, no secret
    seconds = []
    for number in range(count):
        line = chosen.randrange(1, document.line_count)
        end = (line, len(document.line_bytes(line)))
        begin = time.perf_counter()
        change = document.edit(end, end, "x(\n"[number % 3])
        document.reading()
        seconds.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        document.edit(change.start, change.new_end, "")
        document.reading()
        seconds.append(time.perf_counter() - begin)
    return seconds


def longest_wait(text: str) -> float:
    """The longest block of the event loop, in seconds, while a file is opened, read and edited."""

    async def work() -> None:
        document = SourceDocument("model.py", text)
        await document.read()
        for line in range(100, document.line_count, document.line_count // 10):
            document.edit((line, 0), (line, 0), "\n")
            await document.read()

    return asyncio.run(_watched(work()))


def busy_wait() -> float:
    """The same with a thread that runs plain Python for a second: the load of this machine on any event loop."""

    def count() -> None:
        end = time.perf_counter() + 1.0
        while time.perf_counter() < end:
            pass

    return asyncio.run(_watched(asyncio.to_thread(count)))


async def _watched(work: Coroutine[object, object, None]) -> float:
    longest, last = 0.0, time.perf_counter()
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last - 0.001), now
    await task
    return longest


def rows() -> list[Row]:
    """The measurements."""
    small, huge = source(2_000), source(50_000)
    parse = median([_timed(lambda: ast.parse(small)) for _ in range(9)])
    document = SourceDocument("model.py", small)
    first = _timed(document.reading)
    typed = sorted(keystrokes(document, 150))
    p95 = typed[int(len(typed) * 0.95)]
    held = median([longest_wait(huge) for _ in range(3)])
    busy = busy_wait()
    raw = f"ast.parse {parse * 1e3:.1f} ms"
    return [
        Row(
            "static: keystroke in 2,000 lines to reading, 95th percentile, against ast.parse",
            p95 / parse,
            1.0,
            detail=f"{p95 * 1e3:.1f} ms, {raw}",
        ),
        Row(
            "static: first reading of 2,000 lines against ast.parse",
            first / parse,
            4.0,  # once a file: 0.1 s
            detail=f"{first * 1e3:.1f} ms, {raw}",
        ),
        Row(
            "static: longest hold of the event loop by a 50,000-line file",
            held * 1e3,
            50.0,
            "ms",
            detail=f"{busy * 1e3:.0f} ms with a thread that only counts",
        ),
    ]


def _timed(call: Callable[[], object]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


if __name__ == "__main__":
    sys.exit(print_table(rows()))
