"""The benchmarks of a target that the page can choose from or compare with."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.report import Tier
from fuselight_server.measured import exports
from fuselight_server.measured.history import read_run, runs_of_gone
from fuselight_server.runs.keys import Key
from fuselight_server.runs.planning import MAIN

if TYPE_CHECKING:
    from fuselight_server.features.server import Server
    from fuselight_server.measured.history import BenchmarkRun, History, Past


def bench_key(path: str, target: str) -> Key:
    """Name the benchmarks of a target; empty, or `__main__`, for the file's own block."""
    return Key(path, "" if target == MAIN else target, Tier.MEASURED)


async def gone_runs(server: Server, history: History) -> tuple[Past, ...]:
    """Return the runs of targets that the file does not have any more, as far as it can be read."""
    reading = server.analysis.reading(history.path)
    if reading is None:
        return ()
    names = {*(one.name for one in reading.targets), *([""] if reading.main_line is not None else [])}
    return await asyncio.to_thread(runs_of_gone, history, names)


def other_run(history: History, other: str) -> tuple[BenchmarkRun | None, str]:
    """Return what to compare with: a run of the history, or the export at a path. Where there is none, why not."""
    if not Path(other).is_absolute():
        return read_run(history, other), ""
    try:
        return exports.from_json(exports.text_of(other), history.target, history.path), ""
    except exports.OtherTargetError as error:
        return None, f"{other}: {error}"
    except exports.NotReadError as error:
        return None, str(error)
