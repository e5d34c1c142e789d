"""How a sweep scales with its workers: `python -m benchmarks.studies.sweep_scaling --engine ray --workers 1,2,4`.

It writes a suite of models of equal size and sweeps it once for each number of workers, from an empty folder. Two
rates are printed: of the whole command, with the starts of Ray and of the workers, and of the tasks alone, from the
start of the first task until the last row. The aims are for the tasks: 1.8 times one worker with 2, and 3.4 with 4.
The median and the longest task show the cause of a miss: other work on the machine, or one slow task.
It needs at least as many idle cores, or GPUs with `--do bench`, as workers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
AIMS = {2: 1.8, 4: 3.4}
MODEL = """\
import torch
from torch.nn import functional as F


# fuselight: Net()(f32[2, 32, 64])
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        make = lambda: torch.nn.TransformerEncoderLayer(
            64, 4, {width}, activation=F.silu, batch_first=True  # one that torch has no fused operator for
        )
        self.layers = torch.nn.ModuleList([make() for _ in range({layers})])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x * x.mean().item()
"""


@dataclass(frozen=True)
class ScalingRun:
    """One sweep."""

    workers: int
    rows: int
    whole_seconds: float
    """Of the command."""
    task_seconds: float
    """From the start of the first task until the last row."""
    median_task: float
    longest_task: float
    """Seconds of one task."""


def main() -> int:
    """Sweep with each number of workers and print the table; returns the exit code: 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", choices=("local", "ray"), default="ray")
    parser.add_argument("--address", help="of a Ray cluster; --workers then limits its use")
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--models", type=int, default=48)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--do", choices=("check", "bench"), default="check")
    options = parser.parse_args()
    counts = [int(part) for part in options.workers.split(",")]
    runs = [swept(count, options) for count in counts]
    print(
        f"\n{platform.processor() or platform.machine()}, {os.cpu_count()} cores, {options.engine}, {options.do}"
    )
    print(
        "| workers | rows | whole command | tasks | median task | longest task | speed-up of tasks "
        "| of the command | aim |"
    )
    print("|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    missed = False
    for run in runs:
        gain = runs[0].task_seconds / run.task_seconds
        aim = AIMS.get(run.workers) if runs[0].workers == 1 else None
        missed |= aim is not None and gain < aim
        print(
            f"| {run.workers} | {run.rows} | {run.whole_seconds:.1f} s | {run.task_seconds:.1f} s "
            f"| {run.median_task:.2f} s | {run.longest_task:.2f} s | {gain:.2f} "
            f"| {runs[0].whole_seconds / run.whole_seconds:.2f} | {aim or ''} |"
        )
    return int(missed)


def swept(workers: int, options: argparse.Namespace) -> ScalingRun:
    """Sweep the suite once."""
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        (folder / "pyproject.toml").touch()
        (folder / "models").mkdir()
        for number in range(options.models):
            text = MODEL.format(width=256 + 8 * number, layers=options.layers)  # no two have the same code
            (folder / "models" / f"net_{number:03}.py").write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "fuselight_server", "sweep", "models", "--out", "out"]
        command += ["--engine", options.engine, "--do", options.do]
        command += ["--address", options.address] if options.address else []
        command += ["--jobs", str(workers)]
        if options.do == "bench":
            command += ["--device", "cuda", "--gpus", str(workers), "--seconds", "0.2"]
        given = os.environ.get("PYTHONPATH")
        path = os.pathsep.join([str(ROOT / "compiler"), str(ROOT / "server"), *([given] if given else [])])
        started = time.perf_counter()
        with subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            text=True,
        ) as running:
            arrived = [
                time.perf_counter()
                for line in running.stdout or ()
                if line.startswith(("done ", "failed ", "lost "))
            ]
        whole = time.perf_counter() - started
        lines = (folder / "out" / "results.jsonl").read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines]
        failed = [row for row in rows if row["status"] != "done"]
        if running.returncode != 0 or len(rows) != options.models or failed:
            raise SystemExit(f"the sweep with {workers} workers failed: {failed[:1] or running.returncode}")
        tasks = [row["seconds"] for row in rows]
        begun = arrived[0] - tasks[0]
        print(f"{workers} workers: {len(rows)} rows in {whole:.1f} s", flush=True)
        return ScalingRun(
            workers, len(rows), whole, arrived[-1] - begun, statistics.median(tasks), max(tasks)
        )


if __name__ == "__main__":
    sys.exit(main())
