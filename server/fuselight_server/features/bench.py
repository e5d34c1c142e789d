"""Benchmarks for the client: `fuselight/measured` and its exports, and the commands that start and end one.

Invariant: what cannot be shown is answered with what to do, never with an error. Runs that came with a folder are read
only while it is trusted.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pygls.exceptions import JsonRpcException

from fuselight.configurations import ConfigurationError
from fuselight.report import Tier
from fuselight_server import convert
from fuselight_server.bench_runs import is_stale, plan_of
from fuselight_server.features.bench_history import bench_key, forget, gone_runs, other_run
from fuselight_server.features.bench_texts import Texts
from fuselight_server.features.commands import argument
from fuselight_server.features.protocol import Written, written
from fuselight_server.features.status import describe
from fuselight_server.kernels import Place
from fuselight_server.measured import exports, tables, words
from fuselight_server.measured.comparison import as_json, compare
from fuselight_server.measured.gone import read
from fuselight_server.measured.page import Around, Drawn, Named, body, nothing, of_body, places_of
from fuselight_server.measured.planning import history_of
from fuselight_server.measured.view import View
from fuselight_server.measured_results import CANCELLED, ENDED, SO_FAR
from fuselight_server.plan import MAIN
from fuselight_server.runs import Key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import Report
    from fuselight_server.features.protocol import MeasuredExportParams, MeasuredParams
    from fuselight_server.features.server import Server
    from fuselight_server.measured.history import History, Run
    from fuselight_server.measured_results import MeasuredResult
    from fuselight_server.runs import Running
    from fuselight_server.static.reading import Reading

WORK = frozenset({"inference", "forward_backward", "training_step"})


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
    if server.analysis.early.keep(lambda: _later(server, arguments)):
        return {"started": True, "target": name, "message": name or MAIN}
    return _started(server, arguments, reading, name)


def _later(server: Server, arguments: tuple[Any, ...]) -> None:
    """Start what was asked for before the settings were known, which say what is measured, and by which interpreter."""
    answer = start(server, arguments)
    if not answer["started"]:
        server.face.say(answer["message"], error=False)


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
    """Answer `fuselight.cancelBench`: end the benchmark of a target at once; where none is named, all of them."""
    uri, target = argument(arguments, "uri"), argument(arguments, "target")
    runs = server.analysis.runs
    if uri is None and target is None:
        there = (*runs.in_flight, *runs.queue.waiting)
        runs.cancel([key for key in there if key.tier is Tier.MEASURED])
        return
    path = convert.path(uri) if isinstance(uri, str) else None
    if path is not None and isinstance(target, str):
        runs.cancel([bench_key(path, target)])


COMMANDS = {"fuselight.bench": start, "fuselight.cancelBench": cancel, "fuselight.forgetBench": forget}


# The page


async def measured(server: Server, params: MeasuredParams) -> dict[str, Any]:
    """Make what `fuselight/measured` is answered with."""
    return (await _page(server, params.uri, params.target, params.run, params.with_))[0]


async def answer(server: Server, params: MeasuredParams) -> Written:
    """Answer `fuselight/measured`."""
    made = await measured(server, params)
    return Written(await asyncio.to_thread(written, made))


async def export(server: Server, params: MeasuredExportParams) -> dict[str, str]:
    """Answer `fuselight/measuredExport`. Raises JsonRpcException where there is nothing, or no such format."""
    if params.format not in exports.FORMATS:
        raise JsonRpcException(
            f"A benchmark is exported as one of {', '.join(exports.FORMATS)}.", code=-32602
        )
    made, run = await _page(server, params.uri, params.target, params.run, params.with_)
    if not made["found"]:
        raise JsonRpcException(f"There is no benchmark to export. {made['message']}", code=-32803)
    made = {**made, "running": False, "history": [], "message": ""}
    try:
        text = await asyncio.to_thread(_exported, made, run, params.format)
    except exports.NotBuiltError as error:
        raise JsonRpcException(f"No HTML: {error}.", code=-32803) from None
    return {"text": text, "name": exports.file_name(made, params.format)}


def _exported(made: dict[str, Any], run: Run | None, ending: str) -> str:
    if ending == "html":
        return exports.as_html(made)
    return tables.as_csv(made) if ending == "csv" else exports.as_json(made, run)


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
    gone = await gone_runs(server, history) if history is not None else ()
    kept = server.state.measured.get(key)
    live = kept.shown if kept is not None else None
    if wanted is not None and not (
        live is not None and live.kept and live.run and live.run.past.id == wanted
    ):
        live = None
    if live is not None and live.unfinished == SO_FAR and not live.learnt and past:
        live = None  # the last whole benchmark says more than first calls
    run = live.run if live is not None else await asyncio.to_thread(_read, history, wanted)
    running = server.analysis.runs.in_flight.get(key)
    around = Around(
        running=running is not None or key in server.analysis.runs.queue.waiting,
        message=_message(server, key, running, kept),
        history=tuple(
            {"id": one.id, "when": one.when, "device": one.device, "label": one.label}
            for one in (*past, *gone)
        ),
    )
    if live is not None and kept is not None:
        found = _Found(live.report, run, run.past.id if live.kept and run is not None else None, live)
        around = replace(around, stale=live.stale, notes=tuple(_notes(live, kept)))
    elif run is not None:
        texts = {
            path: document.source.text for path in run.report.files if (document := server.state.at(path))
        }
        stale = await asyncio.to_thread(is_stale, run.report, texts)
        found = _Found(run.report, run, run.past.id, None)
        around = replace(around, stale=stale)
    else:
        view = _view(server, None, None)
        lost = "That run is not kept any more: choose another." if wanted is not None else ""
        return nothing(Named(path, key.name), view, replace(around, message=lost or around.message)), None
    against, lost = None, ""
    if history is not None and other:
        against, lost = await asyncio.to_thread(other_run, history, other)
    around = replace(around, run=found.identity, notes=(*around.notes, *filter(None, [lost])))
    return await _drawn(server, found, against, around), run


@dataclass(frozen=True)
class _Found:
    """What a page is made of."""

    report: Report
    run: Run | None
    identity: str | None
    """Its id in the history."""
    live: MeasuredResult | None
    """The result whose lines have moved with edits; None for a run of the history."""


async def _drawn(server: Server, found: _Found, against: Run | None, around: Around) -> dict[str, Any]:
    """Make a page off the event loop, which only says where lines are now: one of a thousand kernels takes seconds."""
    report, live = found.report, found.live
    told = live.told if live is not None else await asyncio.to_thread(_told, report)
    compared = (
        await asyncio.to_thread(compare, against, found.run)
        if against is not None and found.run is not None
        else None
    )
    paths = {report.target.path}
    if compared is not None:
        told |= {line.place for line in compared.lines if not line.gone}
        paths |= {line.place.path for line in compared.lines}
    still = _view(server, live, found.run).still(told, paths)
    if live is not None and live.drawn is not None and live.drawn.still.places == still.places:
        drawn = live.drawn
    else:
        drawn = Drawn(still, await asyncio.to_thread(body, report, still))
        if live is not None:
            live.drawn = drawn
    if compared is not None:
        around = replace(around, comparison=await asyncio.to_thread(as_json, compared, still))
    return of_body(drawn.body, report, still, around)


def _told(report: Report) -> frozenset[Place]:
    return frozenset(places_of(report))


def _read(history: History | None, wanted: str | None) -> Run | None:
    if history is None:
        return None
    return read(history, wanted) if wanted else history.newest()


def _message(server: Server, key: Key, running: Running | None, kept: MeasuredResult | None) -> str:
    if running is not None:
        return describe(running)
    if key in server.analysis.runs.queue.waiting:
        return f"Benchmarking {key.name or MAIN}: waiting for another benchmark"
    if key in server.analysis.consent.asked:
        return "Fuselight asks whether it may run code of this folder: it waits for your answer"
    if kept is not None and not kept.learnt:
        return f"The last benchmark failed: {_failure(kept)}"
    return "" if kept is not None else f"Press Benchmark above {key.name or MAIN} to measure it."


def _failure(kept: MeasuredResult) -> str:
    failed = next(iter(kept.failures), None)
    return words.failed(failed) if failed is not None else "nothing was measured"


def _notes(live: MeasuredResult, kept: MeasuredResult) -> Iterator[str]:
    """Yield what was seen of a benchmark from outside, and that it is not the last one where that failed."""
    if live is not kept and not kept.unfinished:
        yield f"the benchmark after this one failed: {_failure(kept)}"
    if live.unfinished in {CANCELLED, ENDED}:
        yield live.unfinished
    yield from live.notes


def _view(server: Server, live: MeasuredResult | None, run: Run | None) -> View:
    """Show lines where edits have moved them; those of an earlier run, where their text stands now."""
    texts = Texts(server.state)

    def now(place: Place) -> Place | None:
        return live.now(place) if live is not None else texts.nearest(place, run)

    return View(server.uri_of, server.state.read_line, lambda path: _shown(server, path), now)


def _shown(server: Server, path: str) -> str:
    """Return a path below its workspace folder; a library's as a whole."""
    folder = server.state.folder_of(path)
    return os.path.relpath(path, folder.path) if folder.uri is not None else path
