"""The processes that a program under `fuselight run` starts: each one records itself, and those that fail are named.

Invariant: the program's own process writes no log: it is recorded in-process. Its variables are those of a plain run
with the ones of `process_variables` added, and torch writes its own log only where the user has set TORCH_TRACE.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from fuselight.shared.started_processes import TRACE, ProcessEnd, process_variables, write_ends

_MAX_CAUSES = 20
_LONGEST_ERROR = 300


class StartedProcesses:
    """Gives the processes of this program what they record themselves with."""

    def __init__(self, run: str) -> None:
        self._run, self._pid = run, os.getpid()
        self._hides_trace = not os.environ.get(TRACE)
        os.environ.update(process_variables(os.environ, run))
        self._folder = os.environ[TRACE]
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._record_fork)

    @contextlib.contextmanager
    def hidden(self) -> Iterator[None]:
        """Have torch not see the folder for logs while it is imported in the program's own process."""
        if os.getpid() != self._pid or not self._hides_trace or os.environ.get(TRACE) != self._folder:
            yield
            return
        del os.environ[TRACE]
        try:
            yield
        finally:
            os.environ.setdefault(TRACE, self._folder)

    def record_import(self) -> None:
        """Have a fork that imports torch itself record more, and the program's own process if it writes a log."""
        with contextlib.suppress(Exception):  # here, since a fork should import as little as possible
            trace_logs = importlib.import_module("fuselight.adapters.torch_api.dynamo.trace_logs")
            if not self._hides_trace:  # the user has torch write a log of the program's own process, too
                trace_logs.record_more()
        if os.getpid() != self._pid:
            self._record_fork()

    def _record_fork(self) -> None:
        """Have a fork of the program record itself. It goes on as before if that fails."""
        if "torch._logging._internal" not in sys.modules:
            return
        with contextlib.suppress(Exception):
            from fuselight.adapters.torch_api.dynamo import trace_logs  # noqa: PLC0415 - torch is imported

            if self._hides_trace:
                trace_logs.trace_into(self._folder)
            trace_logs.record_more()

    def record_failure(self, error: BaseException) -> None:
        """Record the processes that an exception of a launcher names."""
        ends = ends_of(error)
        if ends and os.getpid() == self._pid:
            write_ends(self._run, ends)


def ends_of(error: BaseException | None) -> list[ProcessEnd]:
    """The processes that an exception, or one that caused it, reports as failed: of torchrun or of mp.spawn."""
    for _ in range(_MAX_CAUSES):
        if error is None:
            break
        failures = getattr(error, "failures", None)
        if isinstance(failures, Mapping) and failures:
            return [_failed_rank(rank, failure) for rank, failure in failures.items()]
        if hasattr(error, "error_index") and hasattr(error, "error_pid"):
            return [_failed_process(error)]
        error = error.__cause__ or error.__context__
    return []


def _failed_rank(rank: object, failure: Any) -> ProcessEnd:
    data = getattr(failure, "error_file_data", None)
    message = data.get("message") if isinstance(data, Mapping) else None
    if isinstance(message, Mapping):
        message = message.get("message")
    is_known = isinstance(message, str) and message != "<NONE>"
    return ProcessEnd(
        rank=_number(rank),
        pid=_number(getattr(failure, "pid", None)),
        code=_number(getattr(failure, "exitcode", None)),
        error=_last_line(str(message)) if is_known else "",
    )


def _failed_process(error: Any) -> ProcessEnd:
    code = _number(getattr(error, "exit_code", None))
    is_raised = code is None
    return ProcessEnd(
        number=_number(error.error_index),
        pid=_number(error.error_pid),
        code=1 if is_raised else code,
        error=_last_line(str(error)) if is_raised else "",
    )


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _last_line(text: str) -> str:
    """The line of a traceback that has the exception."""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip()[:_LONGEST_ERROR] if lines else ""
