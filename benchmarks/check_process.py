"""A process of `fuselight check` against a process that compiles the same model cold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.gpt2 import BUILD_AND_CALL, SOURCE, write_model
from benchmarks.table import Row, median, times_faster

ROUNDS = 3
_CHECK_CODES = (0, 1)
"""Findings or none: both are answers."""


def _run(command: list[str], folder: Path, *, codes: tuple[int, ...] = (0,)) -> tuple[float, str]:
    """The seconds and the output of a process."""
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": tempfile.mkdtemp(dir=folder)}
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - started
    if done.returncode not in codes:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return taken, done.stdout


def _check(command: list[str], folder: Path) -> float:
    """Seconds of a check, which must have captured the model."""
    taken, printed = _run(command, folder, codes=_CHECK_CODES)
    targets = json.loads(printed or "{}").get("targets")
    if not targets or not targets[0]["graphs"]:
        raise RuntimeError(f"{command} gave nothing to measure:\n{printed}")
    return taken


def rows() -> list[Row]:
    """The promise about the command."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = write_model(folder)
        script = folder / "cold.py"
        script.write_text(f"{SOURCE}\n{BUILD_AND_CALL}\nbuild_and_call()\n", encoding="utf-8")
        check = [sys.executable, "-m", "fuselight_server", "check", str(model), "--python", sys.executable]
        check += ["--format", "json"]
        checks, colds = [], []
        for _ in range(ROUNDS):
            checks.append(_check(check, folder))
            colds.append(_run([sys.executable, str(script)], folder)[0])
    name = "fuselight check against a cold torch.compile, each as a process"
    return [times_faster(name, median(checks), median(colds), 4)]


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    sys.exit(print_table(rows()))
