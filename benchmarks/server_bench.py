"""What the language server costs: its start, its memory, and a keystroke in a large file, as ratios in one run.

Invariant: both sides of a ratio are measured in turn in the same run, with byte code cached, at the LSP boundary.
"""

from __future__ import annotations

import ast
import contextlib
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "compiler"), str(ROOT / "server")]

from tests.support.lsp_client import Client  # noqa: E402 - needs the path above

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 5
KEYSTROKES = 60
LINES = 2000
MANY_LINES = 50_000
EDITS = 60
SETTLED = 10
"""Edits after which what is kept from one reading to the next is there."""

BARE = """
from pygls.lsp.server import LanguageServer
LanguageServer("bare", "0").start_io()
"""

WATCHED = """
import asyncio, time
from fuselight_server.editor import app

make = app.make_server
longest = 0.0

async def watch():
    global longest
    last = time.perf_counter()
    while True:
        await asyncio.sleep(0.001)
        now = time.perf_counter()
        longest, last = max(longest, now - last - 0.001), now

def make_server():
    server = make()
    server.feature("benchmark/longestStall")(lambda params: 1e3 * longest)
    return server

serve = app._serve

async def watched(server, *pipes):
    task = asyncio.create_task(watch())
    try:
        await serve(server, *pipes)
    finally:
        task.cancel()

app.make_server, app._serve = make_server, watched
app.main()
"""
"""The server, with a clock in a second thread."""

FUNCTION = '''

{decorator}def step_{number}(x, scale):
    """A function like others."""
    total = x.sum(dim=0)
    for index in range(3):
        total = total + scale * x[index].sin()
    if scale > 1:
        total = total.cos()
    return total
'''


def rows() -> list[tuple[str, float, float, str]]:
    """Name, measured, limit and unit of each row."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    starts, bare, memory = [], [], 0.0
    _start([sys.executable, "-X", "utf8", "-m", "fuselight_server.editor.app"])  # writes the byte code
    for _ in range(ROUNDS):
        seconds, memory = _start([sys.executable, "-X", "utf8", "-m", "fuselight_server.editor.app"])
        starts.append(seconds)
        bare.append(_start([sys.executable, "-X", "utf8", "-c", BARE])[0])
    stalls = [_longest_stall() for _ in range(3)]
    stall, grown = (statistics.median(values) for values in zip(*stalls, strict=True))
    return [
        (
            "server: start to initialized",
            statistics.median(starts) / statistics.median(bare),
            2.5,
            "x bare pygls",
        ),
        ("server: resident memory", memory, 80.0, "MB"),
        *(
            (
                f"keystroke in {LINES} lines to lenses and diagnostics, p95, {words}",
                _keystrokes(every),
                1.0,
                "x ast.parse",
            )
            for every, words in ((10, "one function in ten compiled"), (1, "every function compiled"))
        ),
        (f"server: longest stall of the loop with {MANY_LINES} lines opened and edited", stall, 50.0, "ms"),
        (f"server: growth over {EDITS - SETTLED} edits of {MANY_LINES} lines", grown, 20.0, "MB"),
    ]


def _start(command: list[str]) -> tuple[float, float]:
    """Seconds from the start of a server to its answer to `initialize`, and its memory in MB."""
    began = time.perf_counter()
    client = Client(command=command, write_bytecode=True)
    try:
        client.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
        seconds = time.perf_counter() - began
        memory = psutil.Process(client.process.pid).memory_info().rss / 2**20
    finally:
        client.close()
    return seconds, memory


def source(every: int, lines: int = LINES) -> str:
    """A file of so many lines: a function every dozen, one in `every` of them compiled."""
    parts = ["import torch\n"]
    count = 1
    while count < lines:
        decorator = "@torch.compile\n" if len(parts) % every == 0 else ""
        parts.append(FUNCTION.format(number=len(parts), decorator=decorator))
        count += parts[-1].count("\n")
    return "".join(parts)


def _keystrokes(every: int) -> float:
    """The 95th percentile of an edit's way to answered lenses against the median `ast.parse` of the file."""
    text = source(every)
    with _opened(text) as (client, uri):
        rounds = [_round(client, uri, text) for _ in range(ROUNDS)]
    return statistics.median(rounds)  # the machine's other work must not decide


def _round(client: Client, uri: str, text: str) -> float:
    measured, parsed = [], []
    for number in range(KEYSTROKES):
        began = time.perf_counter()
        # A key in the middle of a line, and every tenth time Return, which moves all below it.
        key = "\n    pass" if number % 10 == 0 else "1"
        client.edit(uri, (LINES // 2, 4), (LINES // 2, 4), key, version=number + 2)
        client.lenses(uri)  # answered after the diagnostics of the edit were published
        measured.append(time.perf_counter() - began)
        began = time.perf_counter()
        ast.parse(text)
        parsed.append(time.perf_counter() - began)
    return statistics.quantiles(measured, n=20)[-1] / statistics.median(parsed)


def _longest_stall() -> tuple[float, float]:
    """Milliseconds that the server's event loop was blocked while a file of MANY_LINES lines was opened and edited.

    Also its memory in MB after all of the edits, less that after the first few.
    """
    with _opened(source(1, MANY_LINES), command=[sys.executable, "-X", "utf8", "-c", WATCHED]) as (
        client,
        uri,
    ):
        for number in range(EDITS):
            client.edit(uri, (number, 0), (number, 0), "\n", version=number + 2)
            client.lenses(uri)
            if number == SETTLED:
                before = psutil.Process(client.process.pid).memory_info().rss
        grown = psutil.Process(client.process.pid).memory_info().rss - before
        return float(client.request("benchmark/longestStall")), grown / 2**20


@contextlib.contextmanager
def _opened(text: str, command: list[str] | None = None) -> Iterator[tuple[Client, str]]:
    """A server that has read a file with this text and has answered its lenses."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.py"
        path.write_text(text, encoding="utf-8")
        client = Client(write_bytecode=True, command=command)
        try:
            client.start(Path(folder))
            uri = client.open(path)
            client.lenses(uri)
            yield client, uri
        finally:
            client.close()


if __name__ == "__main__":
    for name, value, limit, unit in rows():
        print(f"{name}: {value:.2f} {unit} (limit {limit:g})")
