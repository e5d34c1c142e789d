"""An edited function traced again by a live run, against Dynamo's own time for the same function.

Ours is the round trip through the worker's client: the edited text is parsed, and the function is traced in a fork of
the live run. The other side is a process that has compiled the model before: `torch.compile(function, backend="eager")`
and one call, after `torch._dynamo.reset()`. Both sides have the function with a graph break and without one.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.table import Row, median
from fuselight.protocol import Answer, DirectiveLine, InputsPlan, LiveReady, LiveRequest, Retrace, Target
from fuselight_server.settings import Interpreter
from fuselight_server.worker_client.client import Worker

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
_PLAIN = """
import contextlib, io, json, sys, time
import torch

torch.set_num_threads(1)
names = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), names)
net, x = names["Net"]().eval(), torch.randn(2, 32, 64)
block, found = net.blocks[0], []
with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
    torch.compile(net, backend="eager")(x)
    for name in ("attention", "forward"):
        times = []
        for _ in range(int(sys.argv[2])):
            torch._dynamo.reset()
            start = time.perf_counter()
            torch.compile(getattr(block, name), backend="eager")(x)
            times.append(time.perf_counter() - start)
        found.append(times)
print(json.dumps(found))
"""


def rows() -> list[Row]:
    """The promises about the time from an edit to its prediction."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "net.py"
        path.write_text(SOURCE, encoding="utf-8")
        ours = asyncio.run(_ours(path, {"without a break": f"{SOURCE}\n", "with a break": BROKEN}))
        out = []
        for kind, text in (("without a break", SOURCE), ("with a break", BROKEN)):
            path.write_text(text, encoding="utf-8")
            theirs = _theirs(path)
            ratio = median(
                [median(ours[kind, name]) / median(times) for name, times in zip(NAMES, theirs, strict=True)]
            )
            every = sorted(seconds for name in NAMES for seconds in ours[kind, name])
            late = every[int(0.95 * len(every))]
            detail = f"{1000 * median(every):.0f} ms, 95th percentile {1000 * late:.0f} ms"
            out.append(Row(f"an edited function {kind}, predicted over compiled", ratio, 1.5, detail=detail))
    return out


async def _ours(path: Path, texts: dict[str, str]) -> dict[tuple[str, str], list[float]]:
    """Seconds of each round trip, by kind of text and name of the function."""
    worker = Worker(Interpreter(sys.executable), cwd=str(path.parent), log=lambda _: None)
    line = SOURCE[: SOURCE.index("class Net")].count("\n") + 1
    request = LiveRequest(
        id=1,
        generation=1,
        target=Target(str(path), "Net", "module", line, compiled=False),
        inputs=InputsPlan(directives=(DirectiveLine(line - 1, 0, "Net()(f32[2, 32, 64])"),)),
        roots=(str(path.parent),),
    )
    ready: asyncio.Future[LiveReady] = asyncio.get_running_loop().create_future()
    live = asyncio.create_task(worker.run_live(request, lambda _: None, ready.set_result))
    try:
        waits: set[asyncio.Future[object]] = {live, ready}  # type: ignore[arg-type] # it is invariant
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            raise RuntimeError(f"the live run ended: {live.result()}")
        found: dict[tuple[str, str], list[float]] = {}
        for kind, text in texts.items():
            for name in NAMES:
                found[kind, name] = [await _seconds(worker, path, text, name) for _ in range(ROUNDS)]
    finally:
        live.cancel()
        await asyncio.wait({live})
        await worker.close()
    return found


async def _seconds(worker: Worker, path: Path, text: str, name: str) -> float:
    start = time.perf_counter()
    answer = await worker.retrace(Retrace(1, 1, str(path), text, (name,), seconds=60.0))
    seconds = time.perf_counter() - start
    if (
        not isinstance(answer, Answer)
        or answer.report.failures
        or bool(answer.report.breaks) != (text == BROKEN)
    ):
        raise RuntimeError(f"{name} was not traced as it should: {answer}")
    return seconds


def _theirs(path: Path) -> list[list[float]]:
    """Seconds of each compile, by function."""
    command = [sys.executable, "-c", _PLAIN, str(path), str(ROUNDS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the compiles ended with {done.returncode}:\n{done.stderr[-2000:]}")
    found: list[list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    sys.exit(print_table(rows()))
