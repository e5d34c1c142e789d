"""The commands that start a benchmark, end it and remove it from the history.

Invariant: a run is removed only where it is named, in a trusted folder; its findings and line times go with it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fuselight.configurations import ConfigurationError
from fuselight.report import Tier
from fuselight_server.features import convert
from fuselight_server.features.bench.page import bench_key
from fuselight_server.features.commands import argument
from fuselight_server.features.target_at import target_at
from fuselight_server.measured.history import remove_run
from fuselight_server.measured.planning import history_of
from fuselight_server.runs.planning import MAIN
from fuselight_server.session.benchmarks import plan_of

if TYPE_CHECKING:
    from fuselight_server.features.server import Server
    from fuselight_server.static.reading import Reading

WORK = frozenset({"inference", "forward_backward", "training_step"})


def start(server: Server, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Answer `fuselight.server.bench`: start a benchmark of a target, or of the one that holds some lines."""
    uri = argument(arguments, "uri")
    path = convert.path(uri) if isinstance(uri, str) else None
    if path is None:
        return _answer(None, "Fuselight runs files only: save this to a file first.")
    if not server.state.trusted:
        return _answer(None, "Fuselight runs no code in a workspace that is not trusted.")
    reading = server.analysis.reading(path)
    if reading is None:
        return _answer(None, f"{os.path.basename(path)} cannot be read.")  # noqa: PTH119 - paths stay text
    name = _wanted(reading, arguments)
    if name is None:
        named = argument(arguments, "target")
        there = f"There is no `{named}` in this file" if isinstance(named, str) else "No target is here"
        return _answer(None, f"{there}: point at a class or function, or press Benchmark above one.")
    if server.analysis.early.keep(lambda: _later(server, arguments)):
        return {"started": True, "target": name, "message": name or MAIN}
    return _started(server, arguments, reading, name)


def _later(server: Server, arguments: tuple[Any, ...]) -> None:
    """Start what was asked for before the settings were known, which say what is measured, and by which interpreter."""
    answer = start(server, arguments)
    if not answer["started"]:
        server.ui.say(answer["message"], error=False)


def _started(server: Server, arguments: tuple[Any, ...], reading: Reading, name: str) -> dict[str, Any]:
    folder = server.state.folder_of(reading.path)
    if server.analysis.interpreter(folder) is None:
        return _answer(None, "No Python interpreter was found to run it: select one that has torch.")
    names, work = argument(arguments, "configurations"), argument(arguments, "work")
    try:
        plan = plan_of(
            folder.settings.bench,
            compiled=not name
            or any(one.compiled for one in reading.targets if name in {one.name, one.holds}),
            names=[one for one in names if isinstance(one, str)] if isinstance(names, (list, tuple)) else (),
            work=work if work in WORK else None,
        )
    except ConfigurationError as error:
        whose = "Fuselight" if names else "The setting fuselight.bench.configurations"
        return _answer(None, f"{whose}: {error}.")
    server.analysis.command(reading.path, name or MAIN, Tier.MEASURED, plan)
    return {"started": True, "target": name, "message": f"{name or MAIN}: {', '.join(plan.configurations)}"}


def _answer(target: str | None, message: str) -> dict[str, Any]:
    return {"started": False, "target": target, "message": message}


def _wanted(reading: Reading, arguments: tuple[Any, ...]) -> str | None:
    """Name the target that is asked for, empty for the `__main__` block; None where there is none."""
    named = argument(arguments, "target")
    if isinstance(named, str):
        name = "" if named == MAIN else named
        there = any(one.name == name for one in reading.targets) or (
            not name and reading.main_line is not None
        )
        return name if there else None
    first, last = (convert.line_of(argument(arguments, name)) for name in ("line", "last"))
    if first is None:
        return None
    return target_at(reading, first + 1, max(first, last or 0) + 1)


def cancel(server: Server, arguments: tuple[Any, ...]) -> None:
    """Answer `fuselight.server.cancelBench`: end the benchmark of a target, or all of them."""
    uri, target = argument(arguments, "uri"), argument(arguments, "target")
    runs = server.analysis.runs
    if uri is None and target is None:
        there = (*runs.in_flight, *runs.queue.waiting)
        runs.cancel([key for key in there if key.tier is Tier.MEASURED])
        return
    path = convert.path(uri) if isinstance(uri, str) else None
    if path is not None and isinstance(target, str):
        runs.cancel([bench_key(path, target)])


def forget(server: Server, arguments: tuple[Any, ...]) -> bool:
    """Answer `fuselight.server.forgetBench`: remove a run from the history; whether there was one."""
    uri, target, run = (argument(arguments, name) for name in ("uri", "target", "run"))
    path = convert.path(uri) if isinstance(uri, str) else None
    if path is None or not isinstance(target, str) or not isinstance(run, str) or not server.state.trusted:
        return False
    key = bench_key(path, target)
    try:
        removed = remove_run(history_of(path, key.name), run)
    except OSError as error:
        server.ui.say(f"The benchmark could not be removed: {error.strerror or error}", error=True)
        return False
    live = server.state.measured.get(key)
    shown = live.shown if live is not None else None
    if shown is not None and shown.is_stored and shown.run and shown.run.past.id == run:
        server.state.drop([key])
    server.state.mark_results([path])
    return removed


COMMANDS = {
    "fuselight.server.bench": start,
    "fuselight.server.cancelBench": cancel,
    "fuselight.server.forgetBench": forget,
}
