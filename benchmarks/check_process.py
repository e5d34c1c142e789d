"""A process of `fuselight check` against processes that compile the same model cold, or only capture it.

The second ratio bounds the first: a check imports torch and the user's libraries, builds the model and traces it, as a
plain capture does.
"""

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
    """The promises about the command."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = write_model(folder)
        script = folder / "cold.py"
        script.write_text(f"{SOURCE}\n{BUILD_AND_CALL}\nbuild_and_call()\n", encoding="utf-8")
        capture = folder / "capture.py"
        call = "build_and_call(backend='eager')"
        capture.write_text(f"{SOURCE}\n{BUILD_AND_CALL}\n{call}\n", encoding="utf-8")
        check = [sys.executable, "-m", "fuselight_server", "check", str(model), "--python", sys.executable]
        check += ["--format", "json", "--no-cache"]
        checks, colds, captures = [], [], []
        for _ in range(ROUNDS):
            checks.append(_check(check, folder))
            colds.append(_run([sys.executable, str(script)], folder)[0])
            captures.append(_run([sys.executable, str(capture)], folder)[0])
    name = "fuselight check against a {}, each as a process"
    return [
        times_faster(name.format("cold torch.compile"), median(checks), median(colds), 4),
        times_faster(name.format("plain capture (backend='eager')"), median(checks), median(captures), 0.9),
    ]


if __name__ == "__main__":
    from benchmarks.print_table import print_table

    sys.exit(print_table(rows()))
