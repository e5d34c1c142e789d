"""What the language server costs: its start, its memory, and a keystroke in a large file, as ratios in one run.

Invariant: both sides of a ratio are measured in turn in the same run, with byte code cached, at the LSP boundary.
"""

from __future__ import annotations

import ast
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "compiler"), str(ROOT / "server")]

from tests.support.lsp_client import Client  # noqa: E402 - needs the path above

ROUNDS = 5
KEYSTROKES = 60
LINES = 2000

BARE = """
from pygls.lsp.server import LanguageServer
LanguageServer("bare", "0").start_io()
"""

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
    _start([sys.executable, "-X", "utf8", "-m", "fuselight_server.app"])  # writes the byte code
    for _ in range(ROUNDS):
        seconds, memory = _start([sys.executable, "-X", "utf8", "-m", "fuselight_server.app"])
        starts.append(seconds)
        bare.append(_start([sys.executable, "-X", "utf8", "-c", BARE])[0])
    return [
        (
            "server: start to initialised",
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


def source(every: int) -> str:
    """A file of LINES lines: a function every dozen, one in `every` of them compiled."""
    parts = ["import torch\n"]
    count = 1
    while count < LINES:
        decorator = "@torch.compile\n" if len(parts) % every == 0 else ""
        parts.append(FUNCTION.format(number=len(parts), decorator=decorator))
        count += parts[-1].count("\n")
    return "".join(parts)


def _keystrokes(every: int) -> float:
    """The 95th percentile of an edit's way to answered lenses against the median `ast.parse` of the file."""
    text = source(every)
    measured, parsed = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "large.py"
        path.write_text(text, encoding="utf-8")
        client = Client(write_bytecode=True)
        try:
            client.start(Path(folder))
            uri = client.open(path)
            client.lenses(uri)
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
        finally:
            client.close()
    return statistics.quantiles(measured, n=20)[-1] / statistics.median(parsed)


if __name__ == "__main__":
    for name, value, limit, unit in rows():
        print(f"{name}: {value:.2f} {unit} (limit {limit:g})")
