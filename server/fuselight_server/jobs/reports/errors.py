"""The errors that ended compiles of a job: their text, whose they are, and what to do.

Invariant: the type of the exception decides, as in a run; the words of a message only where torch records no type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.shared.report import Culprit, NotCompiledKind
from fuselight.shared.torch_texts import in_user_words
from fuselight_server.jobs.trace_log.break_ids import read_registered_reasons
from fuselight_server.jobs.trace_log.files import LogError
from fuselight_server.jobs.trace_log.model import AttemptState, Payload
from fuselight_server.jobs.trace_log.payloads import read_text

if TYPE_CHECKING:
    from fuselight.shared.torch_texts import Reason
    from fuselight_server.jobs.trace_log.model import CompileError, LoggedCompile

UNSUPPORTED = "Unsupported"
_LONGEST_MESSAGE = 1_000
_LIMIT = re.compile(
    r"(?P<name>(?:accumulated_)?recompile_limit)\b.*?(?:currently set to |\()(?P<number>\d{1,9})", re.DOTALL
)
_MARKED = re.compile(r"You marked (?P<source>\S+) as dynamic")


@dataclass(frozen=True)
class FailureVerdict:
    """Whose failure it is, and what to do."""

    culprit: Culprit
    kind: str
    next_step: str


_BY_TYPE = {
    UNSUPPORTED: FailureVerdict(
        Culprit.USER,
        "fullgraph",
        "fullgraph=True allows no graph break. Change this line, or drop fullgraph=True to let the graph end here.",
    ),
    "UncapturedHigherOrderOpError": FailureVerdict(
        Culprit.USER,
        "fullgraph",
        "A function given to torch.cond, while_loop and their like has to be captured whole. Change this line, or move "
        "it out of that function.",
    ),
    "ConstraintViolationError": FailureVerdict(
        Culprit.USER,
        "constraint",
        "The code needs a fixed size where a dynamic one was asked for. Change the line that fixes it, drop the mark, "
        "or use torch._dynamo.maybe_mark_dynamic.",
    ),
    "TorchRuntimeError": FailureVerdict(
        Culprit.USER,
        "exception",
        "An operator refused its inputs while it was traced on fake tensors. Call the function without torch.compile: "
        "if it fails there too, the line is wrong; if not, the operator lacks a fake (meta) implementation.",
    ),
    "RecompileError": FailureVerdict(
        Culprit.USER,
        "recompile",
        "A guard failed while torch._dynamo.config.error_on_recompile is on. Make what changed dynamic, or "
        "turn it off.",
    ),
    "BackendCompilerFailed": FailureVerdict(
        Culprit.COMPILER,
        "backend",
        "The backend failed on this graph. Run with backend='eager' and then 'aot_eager' to see which stage fails, and "
        "report that to the backend's authors.",
    ),
}
_BY_TYPE["UserError"] = _BY_TYPE["ConstraintViolationError"]
_RAISED = FailureVerdict(
    Culprit.USER,
    "exception",
    "The code raised this exception while it was traced. Call the function without torch.compile: if it fails there "
    "too, fix the code or its inputs.",
)
_COMPILER = FailureVerdict(
    Culprit.COMPILER,
    "internal",
    "torch.compile itself failed here, not your code. Put torch.compiler.disable on the function, and report the "
    "traceback to PyTorch.",
)
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


def judge(exception: str | None) -> FailureVerdict:
    """Whose failure an exception of this type is."""
    if exception in _PYTHONS:
        return _RAISED
    return _BY_TYPE.get(exception or "", _COMPILER)


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


def is_failed(compiled: LoggedCompile) -> bool:
    """Whether a compile ended with an exception."""
    metrics = compiled.metrics
    return compiled.state is AttemptState.FAILED or (metrics is not None and metrics.fail_type is not None)


def read_error(compiled: LoggedCompile) -> LoggedError:
    """The last error of a compile: the exception at the end of its traceback, else the cause in torch's metrics."""
    metrics = compiled.metrics
    message = (metrics.fail_reason or "") if metrics is not None else ""
    exception = metrics.fail_type if metrics is not None else None
    errors = [error for attempt in compiled.attempts for error in attempt.errors]
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
    user_code = text.partition("from user code:")[2].replace(
        "\n   File", "\n  File"
    )  # the first has a blank more
    payload = errors[-1].payload if errors else Payload("", 0, 0)
    return LoggedError(shown[:_LONGEST_MESSAGE], text, payload, chain, reason, exception, user_code)


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
