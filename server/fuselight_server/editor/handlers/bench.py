"""Benchmarks for the client: the commands that start, end and remove one, and its page with the exports.

Invariant: what cannot be shown is answered with what to do, never with an error. Runs that came with a folder are read
only while it is trusted. A run is removed only where it is named; its findings and line times go with it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

from pygls.exceptions import JsonRpcException

from fuselight.shared.configurations import ConfigurationError
from fuselight.shared.report import Report, Tier, Work
from fuselight_server.base.files import disk_lines, split_text
from fuselight_server.base.finding import SourceLine
from fuselight_server.editor.handlers.commands import path_in
from fuselight_server.editor.handlers.protocol import Written
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.handlers.target_at import UNSAVED
from fuselight_server.editor.handlers.timed_requests import (
    TimedRequests,
    answer_page,
    refused,
    shown_path,
    started,
)
from fuselight_server.editor.messages.answers import Exported, StartAnswer
from fuselight_server.editor.messages.params import MeasuredExportParams, MeasuredParams
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.benchmarks import MeasuredResult
from fuselight_server.editor.results.target_result import STILL_RUNNING
from fuselight_server.editor.results.timed_words import TimedWords
from fuselight_server.editor.session.state import State
from fuselight_server.editor.session.timed_results import is_stale, plan_of
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.benchmarks import exports
from fuselight_server.explain.benchmarks.history import (
    BenchmarkRun,
    History,
    read_run,
    remove_run,
    runs_of_removed,
)
from fuselight_server.explain.benchmarks.history_diff import compare, on_page
from fuselight_server.explain.benchmarks.page import Around, Drawn, View, body, nothing, of_body, places_of
from fuselight_server.explain.benchmarks.page_types import MeasuredPage, PastRun
from fuselight_server.explain.benchmarks.planning import history_of
from fuselight_server.explain.pages.document import NotBuiltError
from fuselight_server.source.reading import Reading


class Texts:
    """Files as they are now, by the text of their lines: each is read once."""

    def __init__(self, state: State) -> None:
        """Read what is open from the editor, and the rest from the disk."""
        self._state = state
        self._files: dict[str, dict[str, list[int]]] = {}

    def nearest(self, place: SourceLine, run: BenchmarkRun | None) -> SourceLine:
        """Find the line that has the text of then, the nearest of several; the same number where none has."""
        text = run.line(place.path, place.line) if run is not None else None
        if text is None:
            return place
        if place.path not in self._files:
            self._files[place.path] = self._index(place.path)
        lines = self._files[place.path].get(text.strip(), [])
        nearest = min(lines, key=lambda number: abs(number - place.line), default=place.line)
        return SourceLine(place.path, nearest)

    def _index(self, path: str) -> dict[str, list[int]]:
        document = self._state.documents.at(path)
        lines = split_text(document.source.text) if document is not None else disk_lines(path)
        index: dict[str, list[int]] = {}
        for number, line in enumerate(lines, 1):
            index.setdefault(line.strip(), []).append(number)
        return index


BENCHMARKS = TimedRequests(Tier.MEASURED, TimedWords("Benchmark", "Benchmarking", "benchmark", "measure it"))


async def runs_of_removed_targets(server: Server, history: History) -> tuple[PastRun, ...]:
    """Return the runs of targets that the file does not have any more, as far as it can be read."""
    reading = server.analysis.targets.reading(history.path)
    if reading is None:
        return ()
    names = {*(target.name for target in reading.targets), *([""] if reading.main_line is not None else [])}
    return await asyncio.to_thread(runs_of_removed, history, names)


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


async def measured(server: Server, params: MeasuredParams) -> MeasuredPage:
    """Make what `fuselight/measured` is answered with."""
    return (await _page(server, params.uri, params.target, params.run, params.with_))[0]


async def answer(server: Server, params: MeasuredParams) -> Written:
    """Answer `fuselight/measured`."""
    return await answer_page(measured(server, params))


async def export(server: Server, params: MeasuredExportParams) -> Exported:
    """Answer `fuselight/measuredExport`. Raises JsonRpcException where there is nothing, or no such format."""
    if params.format not in exports.FORMATS:
        raise JsonRpcException(
            f"A benchmark is exported as one of {', '.join(exports.FORMATS)}.", code=-32602
        )
    page, run = await _page(server, params.uri, params.target, params.run, params.with_)
    if not page.found:
        raise JsonRpcException(f"There is no benchmark to export. {page.message}", code=-32803)
    page = replace(page, running=False, history=(), message="")
    try:
        text = await asyncio.to_thread(_exported, page, run, params.format)
    except NotBuiltError as error:
        raise JsonRpcException(f"No HTML: {error}.", code=-32803) from None
    return {"text": text, "name": exports.file_name(page, params.format)}


def _exported(page: MeasuredPage, run: BenchmarkRun | None, ending: str) -> str:
    if ending == "html":
        return exports.as_html(page)
    return exports.as_csv(page) if ending == "csv" else exports.as_json(page, run)


async def _page(
    server: Server, uri: str, target: str, wanted: str | None, other: str | None
) -> tuple[MeasuredPage, BenchmarkRun | None]:
    """Make the page of a run, the newest where none is named, and what is exported of it."""
    path = convert.path(uri)
    if path is None:
        view = View(uri_of=lambda _path: uri, read_line=server.state.documents.read_line)
        return nothing(uri, target, view, Around(message=UNSAVED)), None
    key = BENCHMARKS.key(path, target)
    history = history_of(path, key.name) if server.state.trusted else None
    past = await asyncio.to_thread(history.runs) if history is not None else ()
    gone = await runs_of_removed_targets(server, history) if history is not None else ()
    kept = server.state.measured.get(key)
    live = kept.shown if kept is not None else None
    if wanted is not None and not (
        live is not None and live.is_stored and live.run and live.run.past.id == wanted
    ):
        live = None
    if live is not None and live.unfinished == STILL_RUNNING and not live.has_data and past:
        live = None  # the last whole benchmark says more than first calls
    run = live.run if live is not None else await asyncio.to_thread(_read, history, wanted)
    around = Around(
        running=BENCHMARKS.is_running(server, key),
        message=BENCHMARKS.message(server, key, kept),
        history=(*past, *gone),
    )
    if live is not None and kept is not None:
        report, is_stored = live.report, live.is_stored
        around = replace(around, stale=live.stale, notes=tuple(BENCHMARKS.words.notes(live, kept)))
    elif run is not None:
        texts = {
            path: document.source.text
            for path in run.report.files
            if (document := server.state.documents.at(path))
        }
        stale = await asyncio.to_thread(is_stale, run.report, texts)
        report, is_stored = run.report, True
        around = replace(around, stale=stale)
    else:
        view = _view(server, None, None)
        lost = "That benchmark is no longer in the history: choose another one." if wanted is not None else ""
        return nothing(path, key.name, view, replace(around, message=lost or around.message)), None
    against, lost = None, ""
    if history is not None and other:
        against, lost = await asyncio.to_thread(other_run, history, other)
    identity = run.past.id if run is not None and is_stored else None
    around = replace(around, run=identity, notes=(*around.notes, *filter(None, [lost])))
    return await _drawn(server, report, live, run, against=against, around=around), run


async def _drawn(
    server: Server,
    report: Report,
    live: MeasuredResult | None,
    run: BenchmarkRun | None,
    *,
    against: BenchmarkRun | None,
    around: Around,
) -> MeasuredPage:
    """Make a page off the event loop, which only says where lines are now: one of a thousand kernels takes seconds.

    `live` is the result whose lines have moved with edits; None for a run of the history.
    """
    lines = (
        live.covered if live is not None else await asyncio.to_thread(lambda: frozenset(places_of(report)))
    )
    compared = await asyncio.to_thread(compare, against, run) if against and run else None
    paths = {report.target.path}
    if compared is not None:
        lines |= {line.place for line in compared.lines if line.after is not None}
        paths |= {line.place.path for line in compared.lines}
    still = _view(server, live, run).still(lines, paths)
    if live is not None and live.drawn is not None and live.drawn.still.places == still.places:
        drawn = live.drawn
    else:
        drawn = Drawn(still, await asyncio.to_thread(body, report, still))
        if live is not None:
            live.drawn = drawn
    if compared is not None:
        around = replace(around, comparison=await asyncio.to_thread(on_page, compared, still))
    return of_body(drawn.body, report, still, around)


def _read(history: History | None, wanted: str | None) -> BenchmarkRun | None:
    if history is None:
        return None
    return read_run(history, wanted) if wanted else history.newest()


def _view(server: Server, live: MeasuredResult | None, run: BenchmarkRun | None) -> View:
    """Show lines where edits have moved them; those of an earlier run, where their text stands now."""
    texts = Texts(server.state)

    def now(place: SourceLine) -> SourceLine | None:
        return live.now(place) if live is not None else texts.nearest(place, run)

    return View(server.uri_of, server.state.documents.read_line, lambda path: shown_path(server, path), now)


def start(server: Server, options: dict[str, Any]) -> StartAnswer:
    """Answer `fuselight.server.bench`: start a benchmark of a target, or of the one that holds some lines."""
    return BENCHMARKS.start(server, options, _start)


def _start(server: Server, options: dict[str, Any], reading: Reading, name: str) -> StartAnswer:
    folder = server.state.folder_of(reading.path)
    names, work = options.get("configurations"), options.get("work")
    try:
        plan = plan_of(
            folder.settings.bench,
            compiled=not name
            or any(target.compiled for target in reading.targets if name in {target.name, target.holds}),
            names=[name for name in names if isinstance(name, str)]
            if isinstance(names, (list, tuple))
            else (),
            work=work if work in {work.value for work in Work} else None,
        )
    except ConfigurationError as error:
        whose = "Fuselight" if names else "The setting fuselight.bench.configurations"
        return refused(f"{whose}: {error}.")
    server.analysis.requests.command(reading.path, name or MAIN, Tier.MEASURED, plan)
    return started(name, f"{name or MAIN}: {', '.join(plan.configurations)}")


def cancel(server: Server, options: dict[str, Any]) -> None:
    """Answer `fuselight.server.cancelBench`: end the benchmark of a target, or all of them."""
    BENCHMARKS.cancel(server, options)


def forget(server: Server, options: dict[str, Any]) -> bool:
    """Answer `fuselight.server.forgetBench`: remove a run from the history; whether there was one."""
    path, target, run = path_in(options), options.get("target"), options.get("run")
    if path is None or not isinstance(target, str) or not isinstance(run, str) or not server.state.trusted:
        return False
    key = BENCHMARKS.key(path, target)
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
