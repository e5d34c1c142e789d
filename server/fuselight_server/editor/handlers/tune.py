"""Searches for the client: the commands that start and end one, and its page.

Invariant: what cannot be shown is answered with what to do, never with an error. A search starts only where a benchmark
would: in a trusted workspace, with the user's consent, and with an interpreter.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fuselight.shared.configurations import ConfigurationError
from fuselight.shared.measurement_plans import TunePlan
from fuselight.shared.report import Tier
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
from fuselight_server.editor.messages.answers import StartAnswer
from fuselight_server.editor.messages.params import TunedParams
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.results.timed_words import TimedWords
from fuselight_server.editor.session.timed_results import tune_plan_of
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.searches.page import Surroundings, no_search, page
from fuselight_server.explain.searches.page_types import TunedPage
from fuselight_server.source.reading import Reading

SEARCHES = TimedRequests(Tier.TUNED, TimedWords("Tune", "Tuning", "search", "find its fastest configuration"))


# The page


async def answer(server: Server, params: TunedParams) -> Written:
    """Answer `fuselight/tuned`."""
    return await answer_page(tuned(server, params))


async def tuned(server: Server, params: TunedParams) -> TunedPage:
    """Make the page of a target's last search."""
    path = convert.path(params.uri)
    if path is None:
        return no_search(params.uri, "", params.target, Surroundings(message=UNSAVED))
    key = SEARCHES.key(path, params.target)
    kept = server.state.tunings.get(key)
    shown = kept.shown if kept is not None else None
    around = Surroundings(
        running=SEARCHES.is_running(server, key), message=SEARCHES.message(server, key, kept)
    )
    uri, name = server.uri_of(path), shown_path(server, path)
    if kept is None or shown is None or shown.tuned is None:
        return no_search(uri, name, key.name, around)
    file = await asyncio.to_thread(shown.decision_file)
    around = Surroundings(
        running=around.running,
        message=around.message,
        stale=shown.stale,
        notes=tuple(SEARCHES.words.notes(shown, kept)),
        file=convert.uri(file.path) if file is not None and not file.problem else "",
        file_shown=shown_path(server, file.path) if file is not None else "",
        file_problem=file.problem if file is not None else "",
    )
    return await asyncio.to_thread(
        page, shown.report, around, uri_of=lambda _path: uri, shown=lambda _path: name
    )


# Commands


def start(server: Server, options: dict[str, Any]) -> StartAnswer:
    """Answer `fuselight.server.tune`: search for a target, or for the one that holds some lines."""
    return SEARCHES.start(server, options, _start)


def _start(server: Server, _options: dict[str, Any], reading: Reading, name: str) -> StartAnswer:
    folder = server.state.folder_of(reading.path)
    try:
        plan = tune_plan_of(folder.settings.tune, reading.path)
    except ConfigurationError as error:
        return refused(f"The setting fuselight.tune.candidates: {error}.")
    key = SEARCHES.key(reading.path, name)
    if folder.settings.tune.fixes and key not in server.analysis.tunings.preparing:
        server.spawn(_start_with_fixes(server, key, plan), "tuning")
    else:
        server.analysis.requests.command(reading.path, name or MAIN, Tier.TUNED, plan)
    return started(name)


async def _start_with_fixes(server: Server, key: Key, plan: TunePlan) -> None:
    """Start a search once the fixes of its target are verified, or immediately where there is nothing to fix."""
    prepared = await server.analysis.tunings.prepare(key, plan, server.analysis.fixes)
    if prepared is not None:
        server.analysis.requests.command(key.path, key.name or MAIN, Tier.TUNED, prepared)


def cancel(server: Server, options: dict[str, Any]) -> None:
    """Answer `fuselight.server.cancelTune`: end the search of a target, or all of them; a decision stays."""
    SEARCHES.cancel(server, options)


COMMANDS = {
    "fuselight.server.tune": start,
    "fuselight.server.cancelTune": cancel,
}
