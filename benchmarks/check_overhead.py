"""What `fuselight check` and `fuselight run` add to a program: the whole process, over `python` with the same file.

The programs compile with a backend that generates no code, so that plain Python runs them with bare Dynamo: what is
recorded is all that differs. Rounds of plain and recorded processes are interleaved.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.processes import timed_process
from benchmarks.table import Row, median

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.processes import ProcessTimes

ROUNDS = 4
LIMIT = 1.15
_TRAINING = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(512, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 256, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 8, enable_nested_tensor=False)
        self.head = nn.Linear(128, 512)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids)))


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    @torch.compile(backend="eager")
    def loss_of(ids):
        return nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

    for _ in range(20):
        optimizer.zero_grad()
        loss_of(torch.randint(512, (4, 64))).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""
_BREAKS = """
import torch


class Block(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x):
        x = torch.relu(self.linear(x)) * self.scale
        if x.sum() > 0:
            x = x + 1
        return x


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(index + 0.5) for index in range(6))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.mean().item()


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net = torch.compile(Net(), backend="eager")
    for size in (4, 8, 12):
        for _ in range(10):
            net(torch.randn(size, 64))


if __name__ == "__main__":
    main()
"""
PROGRAMS = {"a training loop of 8 layers": _TRAINING, "6 blocks with breaks and 3 sizes": _BREAKS}


def _checked(path: Path) -> ProcessTimes:
    """A check, which must have captured the program."""
    command = [sys.executable, "-m", "fuselight_server", "check", str(path), "--python", sys.executable]
    command += ["--no-cache", "--format", "json"]
    done = timed_process(command, path.parent, codes=(0, 1))
    if not any(target["graphs"] for target in json.loads(done.printed)["targets"]):
        raise RuntimeError(f"the check captured nothing:\n{done.printed[-2000:]}")
    return done


def _recorded(path: Path) -> ProcessTimes:
    command = [sys.executable, "-m", "fuselight_server", "run", "--python", sys.executable, str(path)]
    return timed_process(command, path.parent, codes=(0, 1))


def _row(name: str, ours: list[ProcessTimes], plain: list[ProcessTimes]) -> Row:
    """The promise about one program, by pairs of neighbors in time: slow drift of the machine cancels."""
    walls = [times.wall / two.wall for times, two in zip(ours, plain, strict=True)]
    cpu = median([times.cpu for times in ours]) / median([times.cpu for times in plain])
    seconds = f"{median([times.wall for times in ours]):.2f} s against {median([times.wall for times in plain]):.2f} s"
    return Row(
        f"{name}, as a process, over python with the same file and bare Dynamo",
        median(walls),
        LIMIT,
        detail=f"{seconds}, {min(walls):.2f}x to {max(walls):.2f}x; processor time {cpu:.2f}x",
    )


def rows() -> Iterator[Row]:
    """The promises about a process that is recorded."""
    with tempfile.TemporaryDirectory() as name:
        for index, (what, text) in enumerate(PROGRAMS.items()):
            folder = Path(name) / str(index)
            folder.mkdir()
            path = folder / "program.py"
            path.write_text(text, encoding="utf-8")
            runs = {
                "python": lambda path=path: timed_process([sys.executable, str(path)], path.parent),
                "check": lambda path=path: _checked(path),
                "run": lambda path=path: _recorded(path),
            }
            times: dict[str, list[ProcessTimes]] = {word: [] for word in runs}
            for number in range(ROUNDS + 1):
                for kind in list(runs) if number % 2 else reversed(runs):
                    taken = runs[kind]()
                    if number:  # the first round writes bytecode and fills the disk's cache
                        times[kind].append(taken)
            for kind in ("check", "run"):
                yield _row(f"fuselight {kind}, {what}", times[kind], times["python"])


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    sys.exit(print_table(rows()))
