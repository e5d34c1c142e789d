"""The errors that ended compiles of a job: their text, whose they are, and what to do.

Invariant: the type of the exception decides, as in a run; the words of a message only where torch records no type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fuselight.shared.failure_verdicts import VERDICTS, FailureVerdict
from fuselight.shared.report import Culprit, NotCompiledKind
from fuselight.shared.torch_texts import Reason, in_user_words
from fuselight_server.jobs.reports.machine_failures import MachineFailure, machine_failure
from fuselight_server.jobs.trace_log.break_ids import read_registered_reasons
from fuselight_server.jobs.trace_log.files import LogError
from fuselight_server.jobs.trace_log.model import (
    AttemptState,
    CompileError,
    CompileMetrics,
    LoggedCompile,
    Payload,
)
from fuselight_server.jobs.trace_log.payloads import read_text

UNSUPPORTED = "Unsupported"
_LONGEST_MESSAGE = 1_000
_LIMIT = re.compile(
    r"(?P<name>(?:accumulated_)?recompile_limit)\b.*?(?:currently set to |\()(?P<number>\d{1,9})", re.DOTALL
)
_USER_CODE = re.compile(r"from user code:|\nFound from ?: ?")
"""What precedes the frames of the user's code: of Dynamo, and of a lowering of Inductor."""
_MARKED = re.compile(r"You marked (?P<source>\S+) as dynamic")


_BY_TYPE = {
    "Unsupported": "fullgraph",
    "UncapturedHigherOrderOpError": "higher_order",
    "ConstraintViolationError": "constraint",
    "TorchRuntimeError": "operator",
    "RecompileError": "recompile",
    "BackendCompilerFailed": "backend",
    "UserError": "constraint",
}
"""The verdict on what torch raises, by its type; all else of torch is a failure of the compiler."""
_PYTHONS = frozenset(
    {"RuntimeError", "ValueError", "TypeError", "KeyError", "IndexError", "AttributeError", "AssertionError"}
    | {
        "ZeroDivisionError",
        "NameError",
        "NotImplementedError",
        "StopIteration",
        "ImportError",
        "RecursionError",
    }
)
"""Exceptions that the traced code raises itself."""


def failure_verdict(error: LoggedError) -> FailureVerdict:
    """Whose failure an exception is: the machine's, or as its type says."""
    if error.machine is not None:
        return FailureVerdict(Culprit.ENVIRONMENT, "machine", error.machine.next_step)
    return _by_type(error.exception)


def _by_type(exception: str | None) -> FailureVerdict:
    if exception in _PYTHONS:
        return VERDICTS["traced"]
    return VERDICTS[_BY_TYPE.get(exception or "", "compiler")]


@dataclass(frozen=True)
class LoggedError:
    """The exception that ended a compile."""

    message: str
    """One line."""
    text: str
    """The traceback, if it was recorded."""
    payload: Payload
    chain: tuple[Reason, ...]
    """As of a graph break, from its message."""
    reason: Reason
    """Of the last break that was handled; else the first of the chain."""
    exception: str | None
    user_code: str
    """The frames of the user's code, as printed."""
    machine: MachineFailure | None = None
    """What the machine lacks, if that is the cause."""


def is_failed(compiled: LoggedCompile) -> bool:
    """Whether a compile ended with an exception."""
    metrics = compiled.metrics
    return compiled.state is AttemptState.FAILED or (metrics is not None and metrics.fail_type is not None)


def read_error(compiled: LoggedCompile) -> LoggedError:
    """The last error of a compile: the exception at the end of its traceback, else the cause in torch's metrics."""
    return _error(
        compiled, compiled.metrics, [error for attempt in compiled.attempts for error in attempt.errors]
    )


def read_backward_errors(compiled: LoggedCompile) -> Iterator[LoggedError]:
    """The errors of its backward, which torch compiles at the first call of it: they have no traceback."""
    for attempt in compiled.attempts:
        for metrics in attempt.metrics:
            if metrics.is_backward and metrics.fail_type is not None:
                yield _error(compiled, metrics, [])


def _error(
    compiled: LoggedCompile, metrics: CompileMetrics | None, errors: Sequence[CompileError]
) -> LoggedError:
    message = (metrics.fail_reason or "") if metrics is not None else ""
    exception = metrics.fail_type if metrics is not None else None
    text = ""
    if errors:
        summary, text = errors[-1].summary, _text_of(errors[-1])
        name = summary.partition(":")[0]
        raised = text.rfind(f"\n{name}: ")
        message = text[raised:].partition(": ")[2] if raised >= 0 else message or summary.partition(": ")[2]
        raised_type = name.rpartition(".")[2]
        exception = raised_type if exception is None or raised_type not in _PYTHONS else exception
    broke = next((item.chain[0] for item in reversed(compiled.breaks)), None)
    chain = read_registered_reasons(message)
    reason = broke or chain[0]
    first = next((line for line in message.strip().splitlines() if line.strip()), "")
    is_dynamos = exception in {UNSUPPORTED, "UncapturedHigherOrderOpError"}
    shown = reason.title if is_dynamos else f"{exception}: {first.strip()}" if exception else first.strip()
    user_code = [*_USER_CODE.split(text, maxsplit=1), ""][1]
    machine = machine_failure(
        message if message.strip() else text[-_LONGEST_MESSAGE:],
        is_of_compiler=_by_type(exception).culprit is Culprit.COMPILER,
    )
    if machine is not None:
        shown = f"{machine.title}: {shown}"
    payload = errors[-1].payload if errors else Payload("", 0, 0)
    user_code = user_code.replace("\n   File", "\n  File")  # the first has a blank more
    return LoggedError(shown[:_LONGEST_MESSAGE], text, payload, chain, reason, exception, user_code, machine)


def _text_of(error: CompileError) -> str:
    try:
        return read_text(error.payload)
    except LogError:
        return ""


@dataclass(frozen=True)
class RefusedByLimit:
    """The recompile limit that refused a compile."""

    kind: NotCompiledKind
    reason: str
    gb_id: str | None


def read_limit(compiled: LoggedCompile) -> RefusedByLimit | None:
    """The limit that a compile met; older releases of torch record why it was needed, and then nothing."""
    metrics = compiled.metrics
    text = (metrics.fail_reason or "") if metrics is not None else ""
    if "recompile limit exceeded" not in text and compiled.state is not AttemptState.REFUSED:
        return None
    limit = _LIMIT.search(text)
    name = "recompile_limit" if limit is None else limit["name"]
    shown = "a recompile limit" if limit is None else f"torch._dynamo.config.{name} ({limit['number']})"
    return RefusedByLimit(
        NotCompiledKind.ACCUMULATED_LIMIT if name.startswith("acc") else NotCompiledKind.RECOMPILE_LIMIT,
        f"{shown} is reached: calls that no cache entry fits run in eager",
        read_registered_reasons(text)[0].gb_id if text else None,
    )


def marked_sources(compiled: LoggedCompile) -> frozenset[str]:
    """The sizes that the error of a compile names as marked dynamic: `x.size(0)`."""
    metrics = compiled.metrics
    if metrics is None or metrics.fail_type not in {"ConstraintViolationError", "UserError"}:
        return frozenset()
    texts = [metrics.fail_reason or ""]
    texts += [_text_of(error) for attempt in compiled.attempts for error in attempt.errors]
    return frozenset(in_user_words(mark["source"]) for text in texts for mark in _MARKED.finditer(text))
