"""Searches for the client: the commands that start and end one, and its page.

Invariant: what cannot be shown is answered with what to do, never with an error. A search starts only where a benchmark
would: in a trusted workspace, with the user's consent, and with an interpreter.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fuselight.shared.configurations import ConfigurationError
from fuselight.shared.report import Tier
from fuselight_server.editor.handlers.commands import path_in
from fuselight_server.editor.handlers.measuring import (
    failure_of,
    notes_of,
    refused,
    run_message,
    shown_path,
    start_asked,
    started,
)
from fuselight_server.editor.handlers.protocol import Written, written_page
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.session.tunings import tune_plan_of
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.searches.decisions import WrittenDecision, holding_file
from fuselight_server.explain.searches.page import Surroundings, no_search, page

if TYPE_CHECKING:
    from fuselight.shared.protocol import TunePlan
    from fuselight_server.editor.handlers.protocol import TunedParams
    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.results.tunings import TuningResult
    from fuselight_server.explain.searches.page_types import TunedPage
    from fuselight_server.source.reading import Reading


def tune_key(path: str, target: str) -> Key:
    """Name the searches of a target; empty, or `__main__`, for the file's own block."""
    return Key(path, "" if target == MAIN else target, Tier.TUNED)


# The page


async def answer(server: Server, params: TunedParams) -> Written:
    """Answer `fuselight/tuned`."""
    made = await tuned(server, params)
    return Written(await asyncio.to_thread(written_page, made))


async def tuned(server: Server, params: TunedParams) -> TunedPage:
    """Make the page of a target's last search."""
    path = convert.path(params.uri)
    if path is None:
        message = "Fuselight runs files only: save this to a file first."
        return no_search(params.uri, "", params.target, Surroundings(message=message))
    key = tune_key(path, params.target)
    kept = server.state.tunings.get(key)
    shown = kept.shown if kept is not None else None
    around = Surroundings(running=_is_running(server, key), message=_message(server, key, kept))
    uri, name = server.uri_of(path), shown_path(server, path)
    if kept is None or shown is None or shown.tuned is None:
        return no_search(uri, name, key.name, around)
    file = await asyncio.to_thread(_file, shown)
    around = Surroundings(
        running=around.running,
        message=around.message,
        stale=shown.stale,
        notes=tuple(notes_of(shown, kept, "search")),
        file=convert.uri(file.path) if file is not None and not file.problem else "",
        file_shown=shown_path(server, file.path) if file is not None else "",
        file_problem=file.problem if file is not None else "",
    )
    return await asyncio.to_thread(
        page, shown.report, around, uri_of=lambda _path: uri, shown=lambda _path: name
    )


def _file(result: TuningResult) -> WrittenDecision | None:
    """What became of the decision; of an earlier session's, the file that still has it."""
    decision = result.tuned.result if result.tuned is not None else None
    if decision is None or result.written is not None:
        return result.written
    return holding_file(decision, result.key.path)


def _is_running(server: Server, key: Key) -> bool:
    runs = server.analysis.runs
    return key in runs.in_flight or key in runs.queue.waiting or key in server.analysis.tunings.preparing


def _message(server: Server, key: Key, kept: TuningResult | None) -> str:
    preparing = "verifying fixes first" if key in server.analysis.tunings.preparing else ""
    message = run_message(server, key, "Tuning", preparing)
    if message:
        return message
    if kept is None:
        return f"Press Tune above {key.name or MAIN} to find its fastest configuration."
    return "" if kept.has_data else f"The last search failed: {failure_of(kept)}"


# Commands


def start(server: Server, options: dict[str, Any]) -> dict[str, Any]:
    """Answer `fuselight.server.tune`: search for a target, or for the one that holds some lines."""
    return start_asked(server, options, "Tune", _start)


def _start(server: Server, _options: dict[str, Any], reading: Reading, name: str) -> dict[str, Any]:
    folder = server.state.folder_of(reading.path)
    try:
        plan = tune_plan_of(folder.settings.tune, reading.path)
    except ConfigurationError as error:
        return refused(f"The setting fuselight.tune.candidates: {error}.")
    key = tune_key(reading.path, name)
    if folder.settings.tune.fixes and key not in server.analysis.tunings.preparing:
        server.spawn(_start_with_fixes(server, key, plan), "tuning")
    else:
        server.analysis.requests.command(reading.path, name or MAIN, Tier.TUNED, plan)
    return started(name)


async def _start_with_fixes(server: Server, key: Key, plan: TunePlan) -> None:
    """Start a search once the fixes of its target are verified, or at once where there is nothing to fix."""
    tunings = server.analysis.tunings
    task = asyncio.ensure_future(tunings.with_fixes(key, plan, server.analysis.fixes))
    tunings.preparing[key] = task
    server.ui.runs_changed()
    try:
        plan = await task
    except asyncio.CancelledError:
        server.analysis.fixes.cancel(path=key.path)
        return
    finally:
        tunings.preparing.pop(key, None)
        server.ui.runs_changed()
    server.analysis.requests.command(key.path, key.name or MAIN, Tier.TUNED, plan)


def cancel(server: Server, options: dict[str, Any]) -> None:
    """Answer `fuselight.server.cancelTune`: end the search of a target, or all of them; a decision stays."""
    runs, preparing = server.analysis.runs, server.analysis.tunings.preparing
    target, path = options.get("target"), path_in(options)
    keys = [key for key in (*runs.in_flight, *runs.queue.waiting, *preparing) if key.tier is Tier.TUNED]
    if options.get("uri") is not None or target is not None:
        wanted = tune_key(path, target) if path is not None and isinstance(target, str) else None
        keys = [key for key in keys if key == wanted]
    for key in keys:
        if key in preparing:
            preparing[key].cancel()
    runs.cancel(keys)


COMMANDS = {
    "fuselight.server.tune": start,
    "fuselight.server.cancelTune": cancel,
}
