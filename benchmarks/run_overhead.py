"""What `fuselight run` costs once everything is compiled: a training step under it, against plain Python.

Both programs live at the same time and step in turns, so that whatever else the machine does falls on both.
The recorder works at compile time only; with a backend that generates no code the step is the same Python and the
same guards, and the benchmark does not wait for Inductor.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.table import Row, median

ROUNDS = 15
SHORTEST_STEP = 0.020
"""Seconds. A shorter step would measure the clock."""

_PROGRAM = """
import sys, time
import torch
from transformers import GPT2Config, GPT2LMHeadModel

torch.set_num_threads(1)
torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=12, n_embd=128, n_head=4, vocab_size=2048, use_cache=False)).train()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
ids = torch.randint(2048, (2, 64))

@torch.compile(backend="eager")
def loss_of(ids):
    return model(ids, labels=ids).loss

def step():
    optimizer.zero_grad()
    loss_of(ids).backward()
    optimizer.step()

for _ in range(5):
    step()
print("ready", flush=True)
for _ in sys.stdin:
    times = []
    for _ in range(8):
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
    print(sorted(times)[len(times) // 2], flush=True)
"""


class Program:
    """The training program, waiting for its turns."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.log = (folder / f"{len(command)}.log").open("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True
        )

    def line(self) -> str:
        """The next line that the program prints."""
        assert self.process.stdout is not None
        text = self.process.stdout.readline().strip()
        if not text:
            self.log.seek(0)
            raise RuntimeError(f"the program ended:\n{self.log.read()[-2000:]}")
        return text

    def round(self) -> float:
        """Median seconds of a few steps."""
        assert self.process.stdin is not None
        print("step", file=self.process.stdin, flush=True)
        return float(self.line())

    def close(self) -> None:
        """End the program through the end of its input."""
        self.process.communicate()
        self.log.close()


def rows() -> list[Row]:
    """The promise about a running program."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "train.py"
        script.write_text(_PROGRAM, encoding="utf-8")
        run = [sys.executable, "-m", "fuselight_server", "run", "--python", sys.executable, str(script)]
        plain: list[float] = []
        ours: list[float] = []
        programs = [Program([sys.executable, str(script)], folder), Program(run, folder)]
        try:
            for program in programs:
                if program.line() != "ready":
                    raise RuntimeError("the program did not get ready")
            for i in range(ROUNDS):
                # The second finds a warmer machine: alternate who is second, too.
                for program in programs if i % 2 else reversed(programs):
                    (plain if program is programs[0] else ours).append(program.round())
        finally:
            for program in programs:
                program.close()
    base = median(plain)
    if base < SHORTEST_STEP:
        raise RuntimeError(
            f"a step of {base * 1000:.0f} ms is too short to measure {SHORTEST_STEP * 1000:.0f} ms by"
        )
    # Ratios of neighbors in time, not a ratio of medians: slow drift of the machine cancels.
    ratio = median([mine / theirs for mine, theirs in zip(ours, plain, strict=True)])
    return [
        Row(
            "fuselight run, steady state, a training step of a 12-layer GPT-2, over plain Python",
            100 * (ratio - 1),
            2,
            unit="%",
            detail=f"{median(ours) * 1000:.1f} ms against {base * 1000:.1f} ms",
        )
    ]


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    sys.exit(print_table(rows()))
