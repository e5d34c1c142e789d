"""An edited function traced again by a live run, against Dynamo's own time for the same function.

Ours is the round trip through the worker's client: the edited text is parsed, and the function is traced in a fork of
the live run that was made ahead. The other side is a process that has compiled the model before:
`torch.compile(function, backend="eager")` and one call, after `torch._dynamo.reset()`. Both sides have the function
with a graph break and without one; their rounds are interleaved. With a break there are two answers: the first break,
as soon as its frame is compiled, and everything, at the end of the trace.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.table import Row, median
from fuselight.shared.protocol import (
    Answer,
    DirectiveLine,
    InputsPlan,
    LiveReady,
    LiveRequest,
    Retrace,
    Target,
)
from fuselight_server.base.settings import Interpreter
from fuselight_server.execution.worker_client.client import Worker

ROUNDS = 9
SOURCE = """\
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim=64, heads=4):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def attention(self, x):
        batch, length, dim = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * self.scale
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        y = (weights @ v).transpose(1, 2).reshape(batch, length, dim)
        return self.out(y)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(6))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
"""
NAMES = ("Block.attention", "Block.forward")
BROKEN = SOURCE.replace("        scores =", "        print()\n        scores =").replace(
    "        return x + self.down", "        print()\n        return x + self.down"
)
_BREAK = "with a break"
KINDS = {"without a break": SOURCE, _BREAK: BROKEN}
PAUSE = 0.5
"""Seconds without a request before each, as between two traces while the user types."""
_PLAIN = """
import contextlib, io, sys, time
import torch

torch.set_num_threads(1)
blocks, x = [], torch.randn(2, 32, 64)
with torch.no_grad():
    for path in sys.argv[1:]:
        names = {}
        exec(compile(open(path).read(), path, "exec"), names)
        net = names["Net"]().eval()
        with contextlib.redirect_stdout(io.StringIO()):
            torch.compile(net, backend="eager")(x)
        blocks.append(net.blocks[0])
    for line in sys.stdin:
        number, name = line.split()
        torch._dynamo.reset()
        start = time.perf_counter()
        with contextlib.redirect_stdout(io.StringIO()):
            torch.compile(getattr(blocks[int(number)], name), backend="eager")(x)
        print(time.perf_counter() - start, flush=True)
"""


def rows() -> list[Row]:
    """The promises about the time from an edit to its prediction."""
    with tempfile.TemporaryDirectory() as name:
        first, ours, theirs = asyncio.run(_measure(Path(name)))
    out = [
        _row(f"an edited function {kind}, predicted over compiled", kind, ours, theirs, 1.5) for kind in KINDS
    ]
    out.append(
        _row(f"an edited function {_BREAK}, its first break over compiled", _BREAK, first, theirs, 1.0)
    )
    return out


def _row(what: str, kind: str, ours: Times, theirs: Times, limit: float) -> Row:
    ratio = median([median(ours[kind, name]) / median(theirs[kind, name]) for name in NAMES])
    every = sorted(seconds for name in NAMES for seconds in ours[kind, name])
    late = every[int(0.95 * len(every))]
    return Row(
        what, ratio, limit, detail=f"{1000 * median(every):.0f} ms, 95th percentile {1000 * late:.0f} ms"
    )


Times = dict[tuple[str, str], list[float]]
"""Seconds, by kind of text and name of the function."""


async def _measure(folder: Path) -> tuple[Times, Times, Times]:
    """Time our first answers, our round trips and Dynamo's own compiles, in turns: the load concerns all."""
    path = folder / "net.py"
    path.write_text(SOURCE, encoding="utf-8")
    plain_paths = [folder / f"plain{number}.py" for number in range(len(KINDS))]
    for plain_path, text in zip(plain_paths, KINDS.values(), strict=True):
        plain_path.write_text(text, encoding="utf-8")
    worker = Worker(Interpreter(sys.executable), cwd=str(folder), log=lambda _: None)
    line = SOURCE[: SOURCE.index("class Net")].count("\n") + 1
    request = LiveRequest(
        id=1,
        generation=1,
        target=Target(str(path), "Net", "module", line, compiled=False),
        inputs=InputsPlan(directives=(DirectiveLine(line - 1, 0, "Net()(f32[2, 32, 64])"),)),
        roots=(str(folder),),
    )
    ready: asyncio.Future[LiveReady] = asyncio.get_running_loop().create_future()
    live = asyncio.create_task(worker.run_live(request, lambda _: None, ready.set_result))
    plain = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _PLAIN, *map(str, plain_paths)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    first: Times = {}
    ours: Times = {}
    theirs: Times = {}
    try:
        waits: set[asyncio.Future[object]] = {live, ready}  # type: ignore[arg-type] # it is invariant
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise RuntimeError(f"the live run ended: {live.result()}")
        for number, kind in enumerate(KINDS):
            for name in NAMES:
                for _ in range(ROUNDS):
                    await asyncio.sleep(PAUSE)
                    early, whole = await _prediction(worker, path, kind, name)
                    first.setdefault((kind, name), []).append(early)
                    ours.setdefault((kind, name), []).append(whole)
                    theirs.setdefault((kind, name), []).append(await _compile(plain, number, name))
    finally:
        live.cancel()
        await asyncio.wait({live})
        await worker.close()
        if plain.stdin is not None:
            plain.stdin.close()
        await plain.wait()
    return first, ours, theirs


async def _prediction(worker: Worker, path: Path, kind: str, name: str) -> tuple[float, float]:
    """Seconds of one round trip: until the first break, else until the answer, and until the answer."""
    text = KINDS[kind] + "\n"
    early: list[float] = []
    start = time.perf_counter()
    answer = await worker.retrace(
        Retrace(1, 1, str(path), text, (name,), seconds=60.0),
        lambda _report: early.append(time.perf_counter() - start),
    )
    seconds = time.perf_counter() - start
    if (
        bool(early) != (kind == _BREAK)
        or not isinstance(answer, Answer)
        or answer.report.failures
        or bool(answer.report.breaks) != (KINDS[kind] == BROKEN)
    ):
        raise RuntimeError(f"{name} was not traced as it should: {answer}")
    return (early or [seconds])[0], seconds


async def _compile(plain: asyncio.subprocess.Process, number: int, name: str) -> float:
    """Seconds of one compile of a process that has compiled the model before."""
    if plain.stdin is None or plain.stdout is None:
        raise RuntimeError("the process has no pipes")
    plain.stdin.write(f"{number} {name.partition('.')[2]}\n".encode())
    await plain.stdin.drain()
    answer = await plain.stdout.readline()
    if not answer:
        raise RuntimeError("the process that compiles has ended; it says why above")
    return float(answer)


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    sys.exit(print_table(rows()))
