"""What benchmarks and searches have in common for the client: how one starts, and what its page says of the run.

Invariant: a start is answered with whether it happened, and otherwise with what to do; never with an error.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from fuselight_server.editor.handlers.commands import path_in
from fuselight_server.editor.handlers.status import describe
from fuselight_server.editor.handlers.target_at import NoTargetError, asked_target
from fuselight_server.editor.results.target_result import CANCELED, ENDED_EARLY
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.benchmarks import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fuselight_server.editor.handlers.server import Server
    from fuselight_server.editor.results.benchmarks import MeasuredResult
    from fuselight_server.editor.results.tunings import TuningResult
    from fuselight_server.execution.runs.keys import Key
    from fuselight_server.source.reading import Reading

    Start = Callable[[Server, dict[str, Any], Reading, str], dict[str, Any]]


def start_asked(server: Server, options: dict[str, Any], lens: str, start: Start) -> dict[str, Any]:
    """Start what a command asks for, of the target that it names or that holds its lines; returns the answer.

    `lens`: the title of the lens that does the same. `start(server, options, reading, name)` runs once the settings are
    known, which say what is measured, and by which interpreter.
    """
    try:
        reading, name = asked_target(server, path_in(options), options, lens)
    except NoTargetError as error:
        return refused(str(error))

    def start_later() -> None:
        answer = start_asked(server, options, lens, start)
        if not answer["started"]:
            server.ui.say(answer["message"], error=False)

    if server.analysis.early.keep(start_later):
        return started(name)
    if server.analysis.workers.interpreter(server.state.folder_of(reading.path)) is None:
        return refused("No Python interpreter was found to run it: select one that has torch.")
    return start(server, options, reading, name)


def started(name: str, message: str = "") -> dict[str, Any]:
    """The answer to a start of the target `name`."""
    return {"started": True, "target": name, "message": message or name or MAIN}


def refused(message: str) -> dict[str, Any]:
    """The answer to a start that did not happen."""
    return {"started": False, "target": None, "message": message}


def run_message(server: Server, key: Key, verb: str, preparing: str = "") -> str:
    """What the run of a target does or waits for; empty if there is none. `preparing`: what it does before it waits."""
    runs = server.analysis.runs
    running = runs.in_flight.get(key)
    if running is not None:
        return describe(running)
    if key in runs.queue.waiting:
        return f"{verb} {key.name or MAIN}: waiting for another benchmark"
    if preparing:
        return f"{verb} {key.name or MAIN}: {preparing}"
    if key in server.analysis.consent.asked:
        return "Fuselight asks whether it may run this folder's code: answer the question to go on"
    return ""


def failure_of(kept: MeasuredResult | TuningResult) -> str:
    """Why a run without data has none."""
    failed = next(iter(kept.failures), None)
    return words.failed(failed) if failed is not None else "nothing was measured"


def notes_of(
    shown: MeasuredResult | TuningResult, kept: MeasuredResult | TuningResult, noun: str
) -> Iterator[str]:
    """Yield what ran at the same time as what is `shown`, and that the last run, which is `kept`, failed after it."""
    if shown is not kept and not kept.unfinished:
        yield f"the {noun} after this one failed: {failure_of(kept)}"
    if shown.unfinished in {CANCELED, ENDED_EARLY}:
        yield shown.unfinished
    yield from shown.notes


def shown_path(server: Server, path: str) -> str:
    """Return a path below its workspace folder; a library's as a whole."""
    folder = server.state.folder_of(path)
    return os.path.relpath(path, folder.path) if folder.uri is not None else path
