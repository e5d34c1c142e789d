"""What a benchmark costs beyond what it measures, and whether its numbers are those of plain Python, on the CPU.

The same promises on a GPU: benchmarks/studies/measured.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.gpt2 import write_model
from benchmarks.table import Row, median

_ROUNDS = 3
_PLAIN = """
import sys
sys.path.insert(0, {folder!r})
import torch
from torch.utils.benchmark import Timer
from gpt2_model import Model

torch.manual_seed(0)
model = Model().eval()
ids = torch.randint(50257, (1, 64))
with torch.no_grad():
    for _ in range(10):
        model(ids)
    timer = Timer("model(ids)", globals={{"model": model, "ids": ids}}, num_threads=torch.get_num_threads())
    print(timer.blocked_autorange(min_run_time=2).median * 1e6)
"""


def rows() -> list[Row]:
    """The promises about a benchmark."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = write_model(folder)
        plain: list[float] = []
        ours: list[float] = []
        for _ in range(_ROUNDS):
            plain.append(_plain(folder))
            ours.append(_row(_bench(path, "--compare", "eager", "--no-accuracy", "--no-profile"), "eager"))
        result = _bench(path, "--compare", "eager,default")
    measured = result["targets"][0]["run"]["report"]["measured"]
    counted, seconds = float(measured["counted_seconds"]), float(measured["seconds"])
    ratio = median([mine / theirs for mine, theirs in zip(ours, plain, strict=True)])
    return [
        Row(
            "a benchmark of GPT-2, 12 layers, eager and default: its own time, of compiles and measured calls",
            100 * (seconds - counted) / counted,
            20,
            unit="%",
            detail=f"{seconds - counted:.1f} s in addition to {counted:.1f} s",
        ),
        Row(
            "its median of eager off from torch.utils.benchmark's in plain Python",
            100 * abs(ratio - 1),
            10,
            unit="%",
            detail=f"{median(ours) / 1000:.2f} ms and {median(plain) / 1000:.2f} ms",
        ),
    ]


def _plain(folder: Path) -> float:
    program = _PLAIN.format(folder=str(folder))
    command = [sys.executable, "-c", program]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def _bench(path: Path, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "fuselight_server", "bench", str(path), "--python", sys.executable]
    done = subprocess.run(
        [*command, "--format", "json", *options], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"fuselight bench failed:\n{done.stdout[-1000:]}\n{done.stderr[-1000:]}")
    read: dict[str, Any] = json.loads(done.stdout)
    return read


def _row(page: dict[str, Any], name: str) -> float:
    (row,) = (
        configuration
        for configuration in page["targets"][0]["page"]["configurations"]
        if configuration["name"] == name
    )
    return float(row["us"])


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    sys.exit(print_table(rows()))
