"""The events of a TORCH_TRACE log: one frozen dataclass and one reader for each kind.

Invariant: a reader takes untrusted values and either returns a fact or raises `BadRecord`. It evaluates and unpickles
nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from fuselight.shared.report import Location, Stack
from fuselight.shared.torch_texts import Reason, read_reasons


class BadRecord(ValueError):  # noqa: N818 - a record, not a program, is in error
    """A record that does not have the form of its kind."""


@dataclass(frozen=True)
class FrameStarted:
    """Dynamo started a frame: the Python stack, with the frame itself last."""

    stack: Stack


@dataclass(frozen=True)
class GraphBroke:
    """A handled graph break. `where` is the location that the first line of the record names."""

    where: Location
    chain: tuple[Reason, ...]
    stack: Stack
    """As printed: Python frames above, then traced ones."""


@dataclass(frozen=True)
class Recompiled:
    """Why no cache entry matched: one string per entry, as torch prints it; empty if torch found no reason."""

    reasons: tuple[str, ...]


@dataclass(frozen=True)
class GraphMade:
    """Dynamo passed a graph to the backend."""

    text: str


@dataclass(frozen=True)
class GuardsBuilt:
    """The guards of a compile, printed as a tree."""

    count: int
    latency_us: float | None


@dataclass(frozen=True)
class Errored:
    """The traceback of an exception that a compile raised."""

    text: str


@dataclass(frozen=True)
class CompileMetrics:
    """The fields of `compilation_metrics` that Fuselight uses."""

    compile_id: str | None
    function: str | None
    path: str | None
    line: int | None
    seconds: float | None
    operators: int | None
    guards: int | None
    fail_type: str | None
    fail_reason: str | None
    restarts: tuple[str, ...] = ()


@dataclass(frozen=True)
class SymbolMade:
    """A size became a symbol."""

    symbol: str
    value: str
    source: str
    range: str


@dataclass(frozen=True)
class SymbolFixed:
    """A symbol was specialized to a number."""

    symbol: str
    sources: tuple[str, ...]
    value: str
    reason: str
    stack: Stack


@dataclass(frozen=True)
class Unread:
    """A record of an unknown kind: its name is kept for the count."""

    kind: str


Fact = Union[  # noqa: UP007 - a list of nine reads better than a line of bars
    FrameStarted,
    GraphBroke,
    Recompiled,
    GraphMade,
    GuardsBuilt,
    Errored,
    CompileMetrics,
    SymbolMade,
    SymbolFixed,
    Unread,
]


@dataclass(frozen=True)
class TraceEvent:
    """A fact with its position in the log and its compile ID."""

    line: int
    """1-based line of the log at which the record starts."""
    fact: Fact
    compile_id: str | None = None
    """`1/0`, or `[k/1/0]` under compiled autograd."""
    attempt: int | None = None
    rank: int | None = None


@dataclass
class Strings:
    """File names that a log interns: number to text."""

    names: dict[int, str] = field(default_factory=dict)

    def stack(self, frames: object) -> Stack:
        """A stack of a record, outermost first."""
        if frames is None:
            return ()
        if not isinstance(frames, list):
            raise BadRecord("a stack is a list")
        return tuple(self._location(frame) for frame in frames)

    def _location(self, frame: object) -> Location:
        if not isinstance(frame, Mapping) or type(frame.get("line")) is not int:
            raise BadRecord("a frame has a line")
        name = frame.get("filename")
        path = self.names.get(name, f"<file {name}>") if type(name) is int else str(name)
        return Location(path, frame["line"], function=_function(str(frame.get("name", ""))))


_RESUME = re.compile(r"torch_dynamo_resume_in_(.+)_at_\d+$")
_BROKE_AT = re.compile(r"Graph [Bb]reak in user code at (?P<path>.+):(?P<line>\d+)$", re.MULTILINE)
_PRINTED_FRAME = re.compile(r'  File "(?P<path>[^"\n]+)", line (?P<line>\d+), in (?P<function>[^\n]+)')
_SYMBOL = ("symbol", "val", "source", "vr")
_LATENCY = re.compile(r"^Guard latency = ([\d.]+) us", re.MULTILINE)


def _function(name: str) -> str:
    while found := _RESUME.match(name):
        name = found[1]
    return name


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BadRecord("an object was expected")
    return value


def _read_break(_value: Any, payload: str, _strings: Strings) -> Fact:
    found = _BROKE_AT.search(payload)
    if found is None:  # a frame that Dynamo skipped: the metrics report it
        return Unread("dynamo_graph_break_reason without a place")
    reason, _, rest = payload[found.end() :].partition("\nUser code traceback:\n")
    reason = reason.partition("Graph Break Reason: ")[2]
    printed = rest.partition("\n\nTraceback (most recent call last)")[0]
    stack = read_printed_stack(printed)
    where = Location(found["path"], int(found["line"]))
    if stack and (stack[-1].path, stack[-1].line) == (where.path, where.line):
        where = stack[-1]
    return GraphBroke(where, read_reasons(_without_preface(reason)), stack)


def _without_preface(reason: str) -> str:
    """Drop the first paragraph, in which torch states how it continues after the break; the reason follows."""
    head, gap, rest = reason.strip("\n").partition("\n\n")
    return rest if gap and head.rstrip().endswith(":") and "\n" not in head else reason.strip("\n")


def read_printed_stack(text: str) -> Stack:
    """The frames of a printed traceback.

    Its caret lines count from the first character that is not blank, and so give no columns without the file.
    """
    return tuple(
        Location(found["path"], int(found["line"]), function=_function(found["function"].strip()))
        for found in _PRINTED_FRAME.finditer(text)
    )


def _read_recompile(_value: Any, payload: str, _strings: Strings) -> Fact:
    try:
        reasons = json.loads(payload) if payload.strip() else []
    except ValueError:
        reasons = payload  # one cache entry's reason is written bare
    return Recompiled(
        tuple(str(reason) for reason in reasons) if isinstance(reasons, list) else (str(reasons),)
    )


def _read_guards(_value: Any, payload: str, _strings: Strings) -> Fact:
    latency = _LATENCY.search(payload)
    try:
        microseconds = None if latency is None else float(latency[1])
    except ValueError:
        microseconds = None
    return GuardsBuilt(len(re.findall(r"^(?:\| )*\+- [A-Z_]+: ", payload, re.MULTILINE)), microseconds)


def _read_metrics(value: Any, _payload: str, _strings: Strings) -> Fact:
    metrics = _mapping(value)
    restarts = metrics.get("restart_reasons")
    return CompileMetrics(
        compile_id=_text(metrics.get("compile_id")),
        function=_text(metrics.get("co_name")),
        path=_text(metrics.get("co_filename")),
        line=_integer(metrics.get("co_firstlineno")),
        seconds=_number(metrics.get("entire_frame_compile_time_s")),
        operators=_integer(metrics.get("graph_op_count")),
        guards=_integer(metrics.get("guard_count")),
        fail_type=_text(metrics.get("fail_type")),
        fail_reason=_text(metrics.get("fail_reason")),
        restarts=tuple(str(item) for item in restarts) if isinstance(restarts, list) else (),
    )


def _read_fixed(value: Any, _payload: str, strings: Strings) -> Fact:
    fixed = _mapping(value)
    sources = fixed.get("sources")
    return SymbolFixed(
        symbol=str(fixed.get("symbol")),
        sources=tuple(str(item) for item in sources) if isinstance(sources, list) else (),
        value=str(fixed.get("value")),
        reason=str(fixed.get("reason")),
        stack=strings.stack(fixed.get("user_stack")),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _integer(value: object) -> int | None:
    return value if type(value) is int else None


def _number(value: object) -> float | None:
    return float(value) if type(value) in {int, float} else None  # type: ignore[arg-type]


Reader = Callable[[Any, str, Strings], Fact]
READERS: tuple[tuple[str, Reader], ...] = (
    ("dynamo_start", lambda value, _, strings: FrameStarted(strings.stack(_mapping(value).get("stack")))),
    ("artifact:dynamo_graph_break_reason", _read_break),
    ("artifact:recompile_reasons", _read_recompile),
    ("artifact:dynamo_error", lambda _value, payload, _: Errored(payload)),
    ("dynamo_output_graph", lambda _value, payload, _: GraphMade(payload)),
    ("dynamo_cpp_guards_str", _read_guards),
    ("compilation_metrics", _read_metrics),
    ("create_symbol", lambda value, *_: SymbolMade(*(str(_mapping(value).get(name)) for name in _SYMBOL))),
    ("symbolic_shape_specialization", _read_fixed),
)
