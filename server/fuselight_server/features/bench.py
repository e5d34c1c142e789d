"""Benchmarks for the client: `fuselight/measured` and its exports, and the commands that start and end one.

Invariant: what cannot be shown is answered with what to do, never with an error. Runs that came with a folder are read
only while it is trusted.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pygls.exceptions import JsonRpcException

from fuselight.configurations import ConfigurationError
from fuselight.report import Tier, data_key
from fuselight_server import convert
from fuselight_server.bench_runs import plan_of
from fuselight_server.features.commands import argument
from fuselight_server.features.status import describe
from fuselight_server.kernels import Place
from fuselight_server.measured import exports
from fuselight_server.measured.comparison import as_json, compare
from fuselight_server.measured.history import run_of
from fuselight_server.measured.page import Around, Named, View, nothing, page
from fuselight_server.measured.planning import history_of
from fuselight_server.measured_results import CANCELLED, ENDED
from fuselight_server.plan import MAIN
from fuselight_server.runs import Key
from fuselight_server.state import disk_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight.report import Report
    from fuselight_server.features.protocol import MeasuredExportParams, MeasuredParams
    from fuselight_server.features.server import Server
    from fuselight_server.measured.history import Run
    from fuselight_server.measured_results import MeasuredResult
    from fuselight_server.runs import Running
    from fuselight_server.static.reading import Reading

WORK = frozenset({"inference", "forward_backward", "training_step"})


def bench_key(path: str, target: str) -> Key:
    """Name the benchmarks of a target; empty, or `__main__`, for the file's own block."""
    return Key(path, "" if target == MAIN else target, Tier.MEASURED)


# Commands


def start(server: Server, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """Answer `fuselight.bench`: start a benchmark of a target, or of the one that holds some lines."""
    uri = argument(arguments, "uri")
    path = convert.path(uri) if isinstance(uri, str) else None
    if path is None:
        return _answer(None, "Fuselight runs files: save this to one first.")
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
    names, work = argument(arguments, "configurations"), argument(arguments, "work")
    folder = server.state.folder_of(path)
    try:
        plan = plan_of(
            folder.settings.bench,
            compiled=not name
            or any(one.compiled for one in reading.targets if name in {one.name, one.holds}),
            names=[one for one in names if isinstance(one, str)] if isinstance(names, (list, tuple)) else (),
            work=work if work in WORK else None,
        )
    except ConfigurationError as error:
        return _answer(None, f"Fuselight: {error}.")
    if folder.consent == "never":
        folder.consent = "unknown"  # it is asked for, and the question is put again
    server.analysis.command(path, name or MAIN, Tier.MEASURED, plan)
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
    line, last = argument(arguments, "line"), argument(arguments, "last")
    if not isinstance(line, (int, float)):
        return None
    first = int(line) + 1
    end = int(last) + 1 if isinstance(last, (int, float)) else first
    return target_at(reading, first, max(first, end))


def target_at(reading: Reading, first: int, last: int) -> str | None:
    """Name the innermost target that holds these 1-based lines, decorators and directives above it included."""
    around = []
    for one in reading.targets:
        top = min([one.span.line, one.name_span.line, *(directive.line for directive in one.directives)])
        if top <= first and last <= (one.span.end_line or one.span.line):
            around.append((top, one.name))
    if around:
        return max(around)[1]
    main = reading.main_line
    return "" if main is not None and main <= first else None


def cancel(server: Server, arguments: tuple[Any, ...]) -> None:
    """Answer `fuselight.cancelBench`: end the benchmark of a target at once."""
    uri, target = argument(arguments, "uri"), argument(arguments, "target")
    path = convert.path(uri) if isinstance(uri, str) else None
    if path is not None and isinstance(target, str):
        server.analysis.runs.cancel([bench_key(path, target)])


COMMANDS = {"fuselight.bench": start, "fuselight.cancelBench": cancel}


# The page


async def measured(server: Server, params: MeasuredParams) -> dict[str, Any]:
    """Answer `fuselight/measured`."""
    return (await _page(server, params.uri, params.target, params.run, params.with_))[0]


async def export(server: Server, params: MeasuredExportParams) -> dict[str, str]:
    """Answer `fuselight/measuredExport`. Raises JsonRpcException where there is nothing, or no such format."""
    made, run = await _page(server, params.uri, params.target, params.run, None)
    if not made["found"]:
        raise JsonRpcException(f"There is no benchmark to export. {made['message']}", code=-32803)
    made = {**made, "running": False, "history": [], "comparison": None, "message": ""}
    if params.format == "html":
        try:
            text = await asyncio.to_thread(exports.as_html, made)
        except exports.NotBuiltError as error:
            raise JsonRpcException(f"No HTML: {error}.", code=-32803) from None
    elif params.format in exports.FORMATS:
        text = exports.as_csv(made) if params.format == "csv" else exports.as_json(made, run)
    else:
        raise JsonRpcException(
            f"A benchmark is exported as one of {', '.join(exports.FORMATS)}.", code=-32602
        )
    return {"text": text, "name": exports.file_name(made, params.format)}


async def _page(
    server: Server, uri: str, target: str, wanted: str | None, other: str | None
) -> tuple[dict[str, Any], Run | None]:
    """Make the page of a run, the newest where none is named, and what is exported of it."""
    path = convert.path(uri)
    if path is None:
        view = View(uri_of=lambda _path: uri, read_line=server.state.read_line)
        message = "Fuselight runs files: save this to one first."
        return nothing(Named(uri, target), view, Around(message=message)), None
    key = bench_key(path, target)
    history = history_of(path, key.name) if server.state.trusted else None
    past = await asyncio.to_thread(history.runs) if history is not None else ()
    kept = server.state.measured.get(key)
    live = kept.shown if kept is not None else None
    if wanted is not None and not (
        live is not None and past and wanted == past[0].id and not live.unfinished
    ):
        live = None
    run: Run | None = None
    if live is None and history is not None:
        run = (
            await asyncio.to_thread(history.read, wanted)
            if wanted
            else await asyncio.to_thread(history.newest)
        )
    if live is not None:
        root = str(history.store.folder.parent) if history is not None else server.state.folder_of(path).path
        run = run_of(live.report, root, _reader(server, live))
    report = live.report if live is not None else run.report if run is not None else None
    against = await asyncio.to_thread(history.read, other) if history is not None and other else None
    view = _view(server, live, run)
    comparison = as_json(compare(against, run), view) if against is not None and run is not None else None
    running = server.analysis.runs.in_flight.get(key)
    around = Around(
        running=running is not None or key in server.analysis.runs.queue.waiting,
        stale=live.stale if live is not None else report is not None and _is_stale(server, report),
        message=_message(server, key, running, kept),
        notes=tuple(_notes(live, kept)) if live is not None and kept is not None else (),
        history=tuple(
            {"id": one.id, "when": one.when, "device": one.device, "label": one.label} for one in past
        ),
        comparison=comparison,
    )
    if report is None:
        gone = "That run is not kept any more: choose another." if wanted is not None else ""
        return nothing(Named(path, key.name), view, replace(around, message=gone or around.message)), None
    return page(report, view, around), run


def _reader(server: Server, live: MeasuredResult) -> Callable[[str, int], str | None]:
    """Read lines of a report where edits have moved them."""

    def read_line(path: str, line: int) -> str | None:
        now = live.now(Place(path, line))
        return server.state.read_line(now.path, now.line) if now is not None else None

    return read_line


def _message(server: Server, key: Key, running: Running | None, kept: MeasuredResult | None) -> str:
    if running is not None:
        return describe(running)
    if key in server.analysis.runs.queue.waiting:
        return f"Benchmarking {key.name or MAIN}: waiting for another benchmark"
    if kept is not None and not kept.learnt:
        return f"The last benchmark failed: {_failure(kept)}"
    return "" if kept is not None else f"Press Benchmark above {key.name or MAIN} to measure it."


def _failure(kept: MeasuredResult) -> str:
    failed = next(iter(kept.failures), None)
    return f"{failed.message}. {failed.next_step}".strip() if failed is not None else "nothing was measured."


def _notes(live: MeasuredResult, kept: MeasuredResult) -> Iterator[str]:
    """Yield what was seen of a benchmark from outside, and that it is not the last one where that failed."""
    if live is not kept:
        yield f"the benchmark after this one failed: {_failure(kept)}"
    if live.unfinished in {CANCELLED, ENDED}:
        yield live.unfinished
    yield from live.notes


def _view(server: Server, live: MeasuredResult | None, run: Run | None) -> View:
    """Show lines where edits have moved them; those of an earlier run, where their text stands now."""

    def now(place: Place) -> Place | None:
        return live.now(place) if live is not None else _by_text(server, place, run)

    return View(server.uri_of, server.state.read_line, lambda path: _shown(server, path), now)


def _by_text(server: Server, place: Place, run: Run | None) -> Place:
    """Find the line that has the text of then, the nearest of several; the same number where none has."""
    text = run.line(place.path, place.line) if run is not None else None
    if text is None or (server.state.read_line(place.path, place.line) or "").strip() == text.strip():
        return place
    document = server.state.at(place.path)
    whole = document.source.text if document is not None else disk_text(place.path) or ""
    lines = [number for number, line in enumerate(whole.splitlines(), 1) if line.strip() == text.strip()]
    nearest = min(lines, key=lambda number: abs(number - place.line), default=place.line)
    return Place(place.path, nearest)


def _shown(server: Server, path: str) -> str:
    """Return a path below its workspace folder; a library's as a whole."""
    folder = server.state.folder_of(path)
    return os.path.relpath(path, folder.path) if folder.uri is not None else path


def _is_stale(server: Server, report: Report) -> bool:
    """Whether a file that ran has another text now."""
    for path, key in report.files.items():
        document = server.state.at(path)
        text = document.source.text if document is not None else disk_text(path)
        if text is None or data_key(text.encode("utf-8", "surrogatepass")) != key:
            return True
    return False
