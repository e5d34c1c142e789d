"""What benchmarks and searches have in common for the client: their start, their end, and what a page says of a run.

Invariant: a start is answered with whether it happened, and otherwise with what to do; never with an error.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from fuselight.shared.report import Tier
from fuselight_server.base.formatting import format_target
from fuselight_server.editor.handlers.commands import path_in
from fuselight_server.editor.handlers.protocol import Written, written_page
from fuselight_server.editor.handlers.server import Server
from fuselight_server.editor.handlers.target_at import NoTargetError, asked_target
from fuselight_server.editor.messages.answers import StartAnswer
from fuselight_server.editor.results.benchmarks import MeasuredResult
from fuselight_server.editor.results.run_progress import WAITING, describe
from fuselight_server.editor.results.timed_words import TimedWords
from fuselight_server.editor.results.tunings import TuningResult
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.source.reading import Reading

Start = Callable[[Server, dict[str, Any], Reading, str], StartAnswer]
"""Starts a run of the target with this name once the settings are known, which say what is measured, and how."""


@dataclass(frozen=True)
class TimedRequests:
    """The requests about the timed runs of one tier."""

    tier: Tier
    words: TimedWords

    def key(self, path: str, target: str) -> Key:
        """Name the runs of a target; empty, or `__main__`, for the file's own block."""
        return Key(path, "" if target == MAIN else target, self.tier)

    def start(self, server: Server, options: dict[str, Any], start: Start) -> StartAnswer:
        """Start what a command asks for, of the target that it names or that holds its lines; returns the answer."""
        try:
            reading, name = asked_target(server, path_in(options), options, self.words.lens)
        except NoTargetError as error:
            return refused(str(error))

        def start_later() -> None:
            answer = self.start(server, options, start)
            if not answer["started"]:
                server.ui.say(answer["message"], error=False)

        if server.analysis.early.keep_request(start_later):
            return started(name)
        if server.analysis.workers.interpreter(server.state.folder_of(reading.path)) is None:
            return refused("No Python interpreter was found to run it: select one that has torch.")
        return start(server, options, reading, name)

    def cancel(self, server: Server, options: dict[str, Any]) -> None:
        """End the run of a target, or all of them, also one that is prepared."""
        runs, preparing = server.analysis.runs, server.analysis.tunings.preparing
        target, path = options.get("target"), path_in(options)
        keys = [key for key in (*runs.in_flight, *runs.queue.waiting, *preparing) if key.tier is self.tier]
        if options.get("uri") is not None or target is not None:
            wanted = self.key(path, target) if path is not None and isinstance(target, str) else None
            keys = [key for key in keys if key == wanted]
        for key in keys:
            if key in preparing:
                preparing[key].cancel()
        runs.cancel(keys)

    def is_running(self, server: Server, key: Key) -> bool:
        """Whether a run of a target goes on, waits or is prepared."""
        runs = server.analysis.runs
        return key in runs.in_flight or key in runs.queue.waiting or key in server.analysis.tunings.preparing

    def message(self, server: Server, key: Key, kept: MeasuredResult | TuningResult | None) -> str:
        """What the run of a target does or waits for, how to start one, or why the last one failed; else empty."""
        name = format_target(key.name)
        running = server.analysis.runs.in_flight.get(key)
        if running is not None:
            return describe(running)
        if key in server.analysis.runs.queue.waiting:
            return f"{self.words.verb} {name}: {WAITING}"
        if key in server.analysis.tunings.preparing:
            return f"{self.words.verb} {name}: verifying fixes first"
        if key in server.analysis.consent.asked:
            return "Fuselight asks whether it may run this folder's code: answer the question to go on"
        return self.words.last(name, server.state.run_ends.get(key), kept)


async def answer_page(page: Coroutine[Any, Any, object]) -> Written:
    """Answer a request with a page, written off the event loop."""
    value = await page
    return Written(await asyncio.to_thread(written_page, value))


def started(name: str, message: str = "") -> StartAnswer:
    """The answer to a start of the target `name`."""
    return {"started": True, "target": name, "message": message or name or MAIN}


def refused(message: str) -> StartAnswer:
    """The answer to a start that did not happen."""
    return {"started": False, "target": None, "message": message}


def shown_path(server: Server, path: str) -> str:
    """Return a path below its workspace folder; a library's as a whole."""
    folder = server.state.folder_of(path)
    return os.path.relpath(path, folder.path) if folder.uri is not None else path
