"""The time that the forecast of a GPT-2 of 12 layers takes, alone and as a part of the call that was captured.

Both times are of the same run, in the worker. The user waits for it after each save.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.gpt2 import write_model
from benchmarks.table import Row, median

ROUNDS = 3
_CHECK_CODES = (0, 1)


def _phases(model: Path) -> dict[str, float]:
    """Seconds by phase of one check, which must have made a forecast."""
    command = [sys.executable, "-m", "fuselight_server", "check", str(model), "--python", sys.executable]
    done = subprocess.run(
        [*command, "--no-cache", "--format", "json"], capture_output=True, text=True, check=False
    )
    if done.returncode not in _CHECK_CODES:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    (target,) = json.loads(done.stdout)["targets"]
    phases: dict[str, float] = target["seconds"]
    if "forecast" not in phases:
        raise RuntimeError(f"{command} made no forecast:\n{done.stdout}")
    return phases


def rows() -> list[Row]:
    """The promises about the time of a forecast."""
    with tempfile.TemporaryDirectory() as name:
        model = write_model(Path(name))
        runs = [_phases(model) for _ in range(ROUNDS)]
    seconds = median([entry["forecast"] for entry in runs])
    part = median([entry["forecast"] / entry["call"] for entry in runs])
    detail = f"{1000 * seconds:.1f} ms of {median([entry['call'] for entry in runs]):.2f} s"
    return [
        Row("forecast of a GPT-2, 12 layers", 1000 * seconds, 50, unit="ms"),
        Row("the same, as a part of its captured call", 100 * part, 5, unit="%", detail=detail),
    ]


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    sys.exit(print_table(rows()))
