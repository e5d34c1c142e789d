"""Captures that `fuselight check` keeps, and gives again where a run would give the same report.

Invariant: what is given is what the run gave. A store that cannot be read or written costs a run, never the command.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from fuselight.shared.foreign_files import project_root
from fuselight.shared.protocol import RunRequest
from fuselight.shared.report import Report, TargetRef
from fuselight_server.base.settings import Interpreter
from fuselight_server.base.store import Store
from fuselight_server.execution.runs.repeated_runs import identity_of, record_of
from fuselight_server.execution.runs.stored_reports import (
    UNREADABLE,
    RepeatedCapture,
    has_captures,
    keep_capture,
    keep_trials,
    repeated_capture,
)


class KeptCaptures:
    """The captures of the projects of one command, for one interpreter."""

    def __init__(self, interpreter: Interpreter, log: Callable[[str], None]) -> None:
        self._interpreter = interpreter
        self._log = log
        self._variables = dict(os.environ)
        self._folder = str(Path.cwd())

    @staticmethod
    def may_answer(paths: Iterable[str]) -> bool:
        """Whether any capture is kept for the projects of these files."""
        folders = {Path(path).parent for path in paths}
        return any(has_captures(Store.at(root)) for root in {project_root(folder) for folder in folders})

    def answer(self, request: RunRequest) -> RepeatedCapture | None:
        """The report that this run would give again; None if a run is needed."""
        target = request.target
        given = repeated_capture(
            self._store(request),
            TargetRef(target.path, target.name, target.line, target.kind),
            self._identity(request),
        )
        if given is not None:
            self._log(f"{target.name or '__main__'} of {target.path} is unchanged: not run")
        return given

    def keep_capture(self, request: RunRequest, report: Report, packages: Iterable[str]) -> str:
        """Keep the report of a run, if it would be the answer to the same run; returns its key.

        The key is empty if the report is not kept.
        """
        name = f"{request.target.name or '__main__'} of {request.target.path}"
        run = record_of(self._identity(request), report, packages)
        if run is None:
            others = report.reads.others if report.reads is not None else ()
            why = f": it uses {', '.join(others)}" if others else ""
            self._log(f"the next check runs {name} again{why}")
            return ""
        try:
            return keep_capture(self._store(request), report, run)
        except OSError as error:
            self._log(f"the capture of {name} cannot be kept: {error}")
            return ""

    def keep_trials(self, request: RunRequest, report: Report) -> str:
        """Keep further trials of a capture that is kept; returns its new key, empty if that cannot be written."""
        target = request.target
        try:
            return keep_trials(
                self._store(request), TargetRef(target.path, target.name, target.line, target.kind), report
            )
        except UNREADABLE as error:
            self._log(f"the trials of {target.name or '__main__'} cannot be kept: {error}")
            return ""

    @staticmethod
    def recording(request: RunRequest) -> RunRequest:
        """The run, which also records what it reads."""
        return dataclasses.replace(request, records_reads=True)

    def _store(self, request: RunRequest) -> Store:
        return Store.at(project_root(Path(request.target.path)))

    def _identity(self, request: RunRequest) -> str:
        return identity_of(request, self._interpreter, self._variables, self._folder)
