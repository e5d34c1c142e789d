"""Searches for the client: the commands that start and end one, and its page.

Invariant: what cannot be shown is answered with what to do, never with an error. A search starts only where a benchmark
would: in a trusted workspace, with the user's consent, and with an interpreter.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from fuselight.configurations import ConfigurationError
from fuselight.report import Tier
from fuselight_server.features import convert
from fuselight_server.features.commands import path_in
from fuselight_server.features.protocol import Written, written
from fuselight_server.features.status import describe
from fuselight_server.features.target_at import NoTargetError, asked_target
from fuselight_server.measured import words as measured_words
from fuselight_server.results.target_result import CANCELED, ENDED_EARLY
from fuselight_server.runs.keys import Key
from fuselight_server.runs.planning import MAIN
from fuselight_server.session.tunings import tune_plan_of
from fuselight_server.tuned.decisions import WrittenDecision, holding_file
from fuselight_server.tuned.page import Surroundings, no_search, page

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.protocol import TunePlan
    from fuselight_server.features.protocol import TunedParams
    from fuselight_server.features.server import Server
    from fuselight_server.results.tunings import TuningResult


def tune_key(path: str, target: str) -> Key:
    """Name the searches of a target; empty, or `__main__`, for the file's own block."""
    return Key(path, "" if target == MAIN else target, Tier.TUNED)


# The page


async def answer(server: Server, params: TunedParams) -> Written:
    """Answer `fuselight/tuned`."""
    made = await tuned(server, params)
    return Written(await asyncio.to_thread(written, made))


async def tuned(server: Server, params: TunedParams) -> dict[str, Any]:
    """Make the page of a target's last search."""
    path = convert.path(params.uri)
    if path is None:
        message = "Fuselight runs files only: save this to a file first."
        return no_search(params.uri, "", params.target, Surroundings(message=message))
    key = tune_key(path, params.target)
    kept = server.state.tunings.get(key)
    shown = kept.shown if kept is not None else None
    around = Surroundings(running=_is_running(server, key), message=_message(server, key, kept))
    uri, name = server.uri_of(path), _shown(server, path)
    if kept is None or shown is None or shown.tuned is None:
        return no_search(uri, name, key.name, around)
    file = await asyncio.to_thread(_file, shown)
    around = Surroundings(
        running=around.running,
        message=around.message,
        stale=shown.stale,
        notes=tuple(_notes(shown, kept)),
        file=convert.uri(file.path) if file is not None and not file.problem else "",
        file_shown=_shown(server, file.path) if file is not None else "",
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
    name = key.name or MAIN
    running = server.analysis.runs.in_flight.get(key)
    if running is not None:
        return describe(running)
    if key in server.analysis.runs.queue.waiting:
        return f"Tuning {name}: waiting for another benchmark"
    if key in server.analysis.tunings.preparing:
        return f"Tuning {name}: verifying fixes first"
    if key in server.analysis.consent.asked:
        return "Fuselight asks whether it may run this folder's code: answer the question to go on"
    if kept is None:
        return f"Press Tune above {name} to find its fastest configuration."
    return "" if kept.has_data else f"The last search failed: {_failure(kept)}"


def _failure(kept: TuningResult) -> str:
    failed = next(iter(kept.failures), None)
    return measured_words.failed(failed) if failed is not None else "nothing was measured"


def _notes(shown: TuningResult, kept: TuningResult) -> Iterator[str]:
    """Yield what was seen of a search from outside, and that it is not the last one where that failed."""
    if shown is not kept and not kept.unfinished:
        yield f"the search after this one failed: {_failure(kept)}"
    if shown.unfinished in {CANCELED, ENDED_EARLY}:
        yield shown.unfinished
    yield from shown.notes


def _shown(server: Server, path: str) -> str:
    """Return a path below its workspace folder; another one as a whole."""
    folder = server.state.folder_of(path)
    return os.path.relpath(path, folder.path) if folder.uri is not None else path


# Commands


def start(server: Server, options: dict[str, Any]) -> dict[str, Any]:
    """Answer `fuselight.server.tune`: search for a target, or for the one that holds some lines."""
    try:
        reading, name = asked_target(server, path_in(options), options, "Tune")
    except NoTargetError as error:
        return _answer(str(error))
    if server.analysis.early.keep(lambda: _later(server, options)):
        return {"started": True, "target": name, "message": name or MAIN}
    folder = server.state.folder_of(reading.path)
    if server.analysis.workers.interpreter(folder) is None:
        return _answer("No Python interpreter was found to run it: select one that has torch.")
    try:
        plan = tune_plan_of(folder.settings.tune, reading.path)
    except ConfigurationError as error:
        return _answer(f"The setting fuselight.tune.candidates: {error}.")
    key = tune_key(reading.path, name)
    if folder.settings.tune.fixes and key not in server.analysis.tunings.preparing:
        server.spawn(_start_with_fixes(server, key, plan), "tuning")
    else:
        server.analysis.command(reading.path, name or MAIN, Tier.TUNED, plan)
    return {"started": True, "target": name, "message": name or MAIN}


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
    server.analysis.command(key.path, key.name or MAIN, Tier.TUNED, plan)


def _later(server: Server, options: dict[str, Any]) -> None:
    """Start what was asked for before the settings were known, which say what is tried, and by which interpreter."""
    made = start(server, options)
    if not made["started"]:
        server.ui.say(made["message"], error=False)


def _answer(message: str) -> dict[str, Any]:
    return {"started": False, "target": None, "message": message}


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
