"""What the history of a target offers besides its own runs, and how one of them is removed: `fuselight.forgetBench`.

Invariant: a run is removed only where it is named, in a folder that is trusted; what stands of it on lines goes along.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuselight.report import Tier
from fuselight_server import convert
from fuselight_server.features.commands import argument
from fuselight_server.measured import exports
from fuselight_server.measured.gone import read, remove, runs_of_gone
from fuselight_server.measured.planning import history_of
from fuselight_server.plan import MAIN
from fuselight_server.runs import Key

if TYPE_CHECKING:
    from fuselight_server.features.server import Server
    from fuselight_server.measured.history import History, Past, Run


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


def other_run(history: History, other: str) -> tuple[Run | None, str]:
    """Return what to compare with: a run of the history, or the export at a path. Where there is none, why not."""
    if not Path(other).is_absolute():
        return read(history, other), ""
    try:
        return exports.from_json(exports.text_of(other), history.target, history.path), ""
    except exports.OtherTargetError as error:
        return None, f"{other}: {error}"
    except exports.NotReadError as error:
        return None, str(error)


def forget(server: Server, arguments: tuple[Any, ...]) -> bool:
    """Answer `fuselight.forgetBench`: remove a run from the history; whether there was one."""
    uri, target, run = (argument(arguments, name) for name in ("uri", "target", "run"))
    path = convert.path(uri) if isinstance(uri, str) else None
    if path is None or not isinstance(target, str) or not isinstance(run, str) or not server.state.trusted:
        return False
    key = bench_key(path, target)
    try:
        removed = remove(history_of(path, key.name), run)
    except OSError as error:
        server.face.say(f"The benchmark could not be removed: {error.strerror or error}", error=True)
        return False
    live = server.state.measured.get(key)
    shown = live.shown if live is not None else None
    paths = {path}
    if live is not None and shown is not None and shown.kept and shown.run and shown.run.past.id == run:
        paths |= live.paths()
        del server.state.measured[key]
    server.face.findings_changed(paths)
    server.face.results_changed(paths)
    return removed
