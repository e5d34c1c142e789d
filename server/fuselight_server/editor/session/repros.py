"""Searches for the smallest program of a fault of the compiler, and what came of each, for the editor.

Invariant: a search runs in a worker of its own, which ends with it; one of each target at a time. What it gives was
confirmed in a new process, and a message says why there is no program.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fuselight.shared.protocol import Limits
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.formatting import format_target
from fuselight_server.base.settings import Settings
from fuselight_server.commands.finding_rows import problem_texts
from fuselight_server.commands.options import CommandOptions, RunSettings
from fuselight_server.commands.repro import ReproOutcome, ReproPlan, reproduce
from fuselight_server.commands.sources import shown_path
from fuselight_server.execution.interpreters import NoInterpreterError
from fuselight_server.execution.runs.keys import Key


@dataclass
class ReproSearch:
    """One in progress."""

    words: str = "starting"
    token: CancelToken = field(default_factory=CancelToken)


@dataclass(frozen=True)
class SmallProgramText:
    """A confirmed program."""

    name: str
    """Of what is compiled."""
    script: str
    issue: str


@dataclass(frozen=True)
class ReproResult:
    """What a search found."""

    programs: tuple[SmallProgramText, ...] = ()
    messages: tuple[str, ...] = ()
    """Why there is no program, or none of a fault."""


class ReproSession:
    """The searches in progress."""

    def __init__(self, texts: Callable[[], Mapping[str, str]], log: Callable[[str], None]) -> None:
        """Start with none. `texts`: the unsaved texts by path."""
        self._texts, self._log = texts, log
        self.active: dict[Key, ReproSearch] = {}
        self.on_change: Callable[[], None] = lambda: None
        """Called when a search begins, moves on or ends."""

    async def search(self, key: Key, target: str | None, python: str, settings: Settings) -> ReproResult:
        """Search the programs of a target, or of all targets of the file; nothing after a cancel with nothing found."""
        if key in self.active:
            return ReproResult(messages=(f"A repro of {format_target(key.name)} is being written already.",))
        search = self.active[key] = ReproSearch()

        def show(words: str) -> None:
            # A client shows a line: the number of the target and the path are left out.
            search.words = words.partition(f"{shown_path(key.path)}: ")[2] or words
            self.on_change()

        self.on_change()
        try:
            asked = self._options(key, target, python, settings)
            return _result(key, await reproduce(asked, show, search.token, plan=ReproPlan()))
        except NoInterpreterError as error:
            return ReproResult(messages=(str(error),))
        except asyncio.CancelledError:
            if not search.token.is_canceled:
                raise
            return ReproResult()
        finally:
            del self.active[key]
            self.on_change()

    def _options(self, key: Key, target: str | None, python: str, settings: Settings) -> CommandOptions:
        return CommandOptions(
            paths=(Path(key.path),),
            targets=(target,) if target is not None else (),
            python=python,
            settings=RunSettings.of(settings),
            limits=Limits(*COMPILE_LIMITS),
            texts=dict(self._texts()),
            log=self._log,
        )

    def cancel(self, key: Key) -> None:
        """End a search; the smallest program so far is confirmed and shown."""
        if key in self.active:
            self.active[key].token.cancel()

    def end(self) -> None:
        """End every search: the session ends."""
        for search in self.active.values():
            search.token.cancel()


def _result(key: Key, outcome: ReproOutcome) -> ReproResult:
    programs, messages = [], []
    for fault in outcome.faults:
        name = fault.name or key.words
        if fault.confirmed is not None:
            programs.append(SmallProgramText(name, fault.confirmed.script, fault.issue))
        else:
            messages.append(f"No repro of {format_target(name)}: {fault.why_not}.")
    if not outcome.faults:
        failures = [failure.message for report in outcome.check.reports for failure in report.failures]
        why, subject = [*failures, *problem_texts(outcome.check.problems)], format_target(key.name)
        none = f"No fault of the compiler was seen in {subject}."
        messages.append(f"No repro of {subject}: {why[0]}" if why else none)
    return ReproResult(tuple(programs), tuple(messages))
