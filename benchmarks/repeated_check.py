"""A check of what has not changed: processor time over an empty Python process, and over the check that ran it.

One folder has a file with a finding, whose fix the last line names, and a target without inputs; the other has fifty
files with one target each. Nothing that is measured starts torch.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from benchmarks.processes import timed_process
from benchmarks.table import Row, median

ROUNDS = 15
FILES = 50
_WITH_FINDINGS = """
import torch


# fuselight: Net()(f32[4, 8])
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        x = self.linear(x)
        print(x.shape, x.sum())
        return x


@torch.compile
def without_inputs(batch, scale):
    return batch["x"] * scale
"""
_SMALL = """
import torch


# fuselight: step(f32[4])
@torch.compile
def step(x):
    return x + {}
"""


def _check(folder: Path, *options: str) -> tuple[float, int]:
    """Processor seconds of a check, and how many of its targets have not changed."""
    command = [sys.executable, "-m", "fuselight_server", "check", ".", "--python", sys.executable]
    done = timed_process(
        [*command, "--format", "json", *options], folder, codes=(0, 1), XDG_STATE_HOME=str(folder)
    )
    targets = json.loads(done.printed)["targets"]
    return done.cpu, sum(target["unchanged_since"] is not None for target in targets)


def _rows_of(what: str, folder: Path, limit: float) -> list[Row]:
    first, _ = _check(folder)
    again: list[float] = []
    empty: list[float] = []
    _check(folder)  # which writes bytecode
    for _ in range(ROUNDS):
        seconds, unchanged = _check(folder)
        if not unchanged:
            raise RuntimeError("nothing was answered from an earlier check")
        again.append(seconds)
        empty.append(timed_process([sys.executable, "-c", "pass"], folder).cpu)
    ours = median(again)
    return [
        Row(
            f"processor time of a second check of {what}, over `python -c pass`",
            ours / median(empty),
            limit,
            detail=f"{ours:.2f} s against {median(empty) * 1000:.0f} ms",
        ),
        Row(
            f"processor time of a second check of {what}, over the first",
            ours / first,
            0.15,
            detail=f"{ours:.2f} s against {first:.2f} s",
        ),
    ]


def rows() -> list[Row]:
    """The promises about a second check."""
    with tempfile.TemporaryDirectory() as name:
        path, many = Path(name) / "one", Path(name) / "many"
        for folder in (path, many):
            folder.mkdir()
            (folder / "pyproject.toml").touch()
        (path / "model.py").write_text(_WITH_FINDINGS, encoding="utf-8")
        for index in range(FILES):
            (many / f"model_{index}.py").write_text(_SMALL.format(index), encoding="utf-8")
        return [*_rows_of("one file with findings", path, 40), *_rows_of(f"{FILES} files", many, 80)]


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    sys.exit(print_table(rows()))
