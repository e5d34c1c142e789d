"""Searches and replays on a machine with one or more GPUs, each with its share of the cores, in a limited time.

    PYTHONPATH=compiler python -m benchmarks.studies.tuning_on_gpus search FOLDER --lane NAME:BUDGET,... [--lane ...]
        [--seconds 560] [-- OPTION...]
    PYTHONPATH=compiler python -m benchmarks.studies.tuning_on_gpus replay FOLDER --lane NAME,... [--lane ...]
        [--seconds 540] [-- OPTION...]
    PYTHONPATH=compiler:. python -m benchmarks.studies.tuning_on_gpus merge PAGES FOLDER...

The searches (benchmarks.studies.tune_models) or replays (benchmarks.studies.replay) of a lane run one after the other, the lanes side
by side: the first lane on the first GPU, the second on the second, and so on in turn. The lanes of one GPU share its
cores, and give each other turns to time. FOLDER gets `lanes/` with the output of each, `models.jsonl`,
`fuselight-tuned.json` and `replays.jsonl`; of a lane that is cut off after `--seconds`, what it has written by then.
What comes after `--` goes to each command. `merge` adds folders, also those of benchmarks.studies.tuning_goal, to the results
in PAGES (`tuning.jsonl`, `fuselight-tuned.json`), the latest last.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.studies.cores import allowed_cores
from fuselight.shared import tuned_file

_ROWS, REPLAYS, ALONE, _PAGE_ROWS = "models.jsonl", "replays.jsonl", "alone.jsonl", "tuning.jsonl"
_OF_ALONE = "device", "torch", "us", "first", "seconds", "late"
"""What a row keeps of its model's compile with max-autotune and nothing beside it (benchmarks.studies.tuning_goal)."""
_SEARCHES = "benchmarks.studies.tune_models"
_LEAST_SECONDS = 20.0
"""A command that has less time left is not started."""
_GRACE = 10.0
"""Seconds that a command gets to end its processes."""


@dataclass(frozen=True)
class Lane:
    """Commands that run one after the other on one GPU."""

    number: int
    gpu: str
    """Value of CUDA_VISIBLE_DEVICES; empty without a GPU."""
    cores: frozenset[int]
    commands: tuple[tuple[str, ...], ...]


def main() -> int:
    """Run the lanes, or merge; the exit code is 0 if every command ended well."""
    given = sys.argv[1:]
    own, passed_on = (
        (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    )
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=("search", "replay", "merge"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("more", type=Path, nargs="*", help="of merge: the folders to add")
    parser.add_argument("--lane", action="append", default=[], help="models: NAME:BUDGET,... or NAME,...")
    parser.add_argument("--seconds", type=float, default=560.0)
    asked = parser.parse_args(own)
    folder = asked.folder.resolve()
    if asked.what == "merge":
        print(merged(folder, asked.more))
        return 0
    folder.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + asked.seconds
    make = searches if asked.what == "search" else replays
    lanes = lanes_of(
        [make(value, folder, number, passed_on, asked.seconds) for number, value in enumerate(asked.lane)]
    )
    with ThreadPoolExecutor(len(lanes) or 1) as pool:
        codes = list(pool.map(lambda lane: run_lane(lane, folder, until), lanes))
    collect(folder)
    return int(any(codes))


def searches(
    text: str, folder: Path, number: int, options: Sequence[str], _seconds: float
) -> list[tuple[str, ...]]:
    """The commands of a lane `NAME:BUDGET,...`: searches of one budget in a row are one command."""
    groups: list[tuple[str, list[str]]] = []
    for part in text.split(","):
        name, _, budget = part.partition(":")
        if not budget:
            raise SystemExit(f"no budget for {name!r} in {text!r}: write {name}:120")
        if not groups or groups[-1][0] != budget:
            groups.append((budget, []))
        groups[-1][1].append(name)
    out = folder / "lanes" / f"search{number}"
    return [
        (
            *(_SEARCHES, "--models", ",".join(names), "--budget", each),
            *("--out", str(out), "--sources", str(folder / "sources"), *options),
        )
        for each, names in groups
    ]  # fmt: skip


def replays(
    text: str, folder: Path, number: int, options: Sequence[str], seconds: float
) -> list[tuple[str, ...]]:
    """The command of a lane `NAME,...`."""
    out = folder / "lanes" / f"replay{number}"
    out.mkdir(parents=True, exist_ok=True)
    arguments = (
        "--models",
        text,
        "--out",
        str(out / REPLAYS),
        "--minutes",
        f"{max(seconds - 100, seconds / 2) / 60:.2f}",
    )
    return [("benchmarks.studies.replay", str(folder), *arguments, *options)]


def lanes_of(commands: Sequence[Sequence[tuple[str, ...]]]) -> list[Lane]:
    """The lanes, in turn on the GPUs of this machine, each of which has its share of the cores."""
    gpus = usable_gpus()
    cores = allowed_cores()
    share = max(1, len(cores) // len(gpus))
    lanes = []
    for number, of_lane in enumerate(commands):
        place = number % len(gpus)
        own = frozenset(cores[place * share : (place + 1) * share])
        lanes.append(Lane(number, gpus[place], own, tuple(of_lane)))
    return lanes


def usable_gpus() -> list[str]:
    """The GPUs that may be used, as CUDA_VISIBLE_DEVICES names them; one empty name without a GPU."""
    return _gpus() or [""]


def _gpus() -> list[str]:
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is not None:
        return [part for part in allowed.split(",") if part]
    with contextlib.suppress(OSError):
        asked = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
        return (
            [str(number) for number, _ in enumerate(asked.stdout.splitlines())]
            if not asked.returncode
            else []
        )
    return []


def run_lane(lane: Lane, folder: Path, until: float) -> int:
    """Run the commands of a lane; returns the first exit code that is not 0, 1 for a command that was cut off."""
    # Searches find each other by a file in the folder of temporary files: those of one GPU must.
    temporary = folder / "tmp" / f"gpu{lane.gpu}"
    temporary.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONUNBUFFERED": "1"}
    if lane.gpu:
        environment["CUDA_VISIBLE_DEVICES"] = lane.gpu
    worst = 0
    for command in lane.commands:
        left = until - time.monotonic()
        if left < _LEAST_SECONDS:
            print(f"lane {lane.number}: no time for {' '.join(command)}", file=sys.stderr, flush=True)
            return 1
        is_search = command[0] == _SEARCHES  # which starts none that would be cut off
        in_time = ("--minutes", f"{left / 60:.2f}") if is_search else ()
        code = _run([*command, *in_time], environment, lane.cores, left)
        worst = worst or code  # a search without a decision does not hold up the others
    return worst


def _run(command: Sequence[str], environment: Mapping[str, str], cores: frozenset[int], left: float) -> int:
    process = subprocess.Popen([sys.executable, "-m", *command], env=environment, start_new_session=True)
    if cores:
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(process.pid, cores)
    try:
        return process.wait(left)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return 1


def collect(folder: Path) -> None:
    """Put the output of all lanes into the folder itself."""
    for name in (_ROWS, REPLAYS, ALONE):
        rows = list(rows_of([folder / name, *sorted((folder / "lanes").glob(f"*/{name}"))]).values())
        _write_rows(folder / name, rows)
    _keep(folder, sorted((folder / "lanes").glob(f"*/{tuned_file.NAME}")))


def merged(pages: Path, folders: Iterable[Path]) -> str:
    """Add folders to the results in `pages`; returns which rows changed. The order of the rows stays."""
    rows = rows_of([pages / _PAGE_ROWS])
    changed: dict[str, list[str]] = {}
    for folder in folders:
        for name, row in rows_of([folder / _ROWS]).items():
            if "failure" not in row and _started(row) >= _started(rows.get(name, {})):
                rows[name] = {**row, "replayed": {}}  # an earlier replay is that of another result
                changed.setdefault(name, []).append("searched")
        for name, row in rows_of([folder / REPLAYS]).items():
            if name in rows:
                rows[name] = {**rows[name], "replayed": row}
                changed.setdefault(name, []).append("replayed")
        for name, row in rows_of([folder / ALONE]).items():
            is_of_search = name in rows and rows[name].get("made", {}).get("device") == row["device"]
            if is_of_search and ("first" in row or "first" not in rows[name].get("alone", {})):
                rows[name] = {**rows[name], "alone": {key: row[key] for key in _OF_ALONE if key in row}}
                changed.setdefault(name, []).append("max-autotune alone")
        _keep(pages, [folder / tuned_file.NAME])
    _write_rows(pages / _PAGE_ROWS, list(rows.values()))
    return "\n".join(f"{name}: {', '.join(what)}" for name, what in changed.items())


def _started(row: Mapping[str, Any]) -> str:
    """When the search of a row was started."""
    return str(row.get("tuned", {}).get("started", ""))


def _keep(folder: Path, files: Iterable[Path]) -> None:
    """Add the results in files to those of a folder. Of two for the same, the later one stays."""
    for path in files:
        file = tuned_file.read(path)
        if file is not None:
            known = tuned_file.read(folder / tuned_file.NAME) or tuned_file.TunedFile()
            latest = {tuned_file.key_of(tuned_result): tuned_result.when for tuned_result in known.results}
            later = [
                tuned_result
                for tuned_result in file.results
                if tuned_result.when >= latest.get(tuned_file.key_of(tuned_result), "")
            ]
            tuned_file.keep(folder / tuned_file.NAME, later)


def rows_of(files: Iterable[Path]) -> dict[str, dict[str, Any]]:
    """The last row of each model, the last decision if it has one; a line that was cut off is ignored."""
    rows: dict[str, dict[str, Any]] = {}
    for path in files:
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            with contextlib.suppress(ValueError):
                row = json.loads(line)
                if "failure" not in row or "failure" in rows.get(row["model"], row):
                    rows[row["model"]] = row
    return rows


def _write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
