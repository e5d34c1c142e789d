"""Parses the records of each kind into facts of the model.

Invariant: a parser takes untrusted values and either returns a fact or raises `BadRecordError`. It evaluates and
unpickles nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fuselight.shared.codec import DecodeError, decode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.report import Imports, Location
from fuselight.shared.report.visible import one_line
from fuselight_server.jobs.trace_log.break_ids import read_registered_reasons
from fuselight_server.jobs.trace_log.model import (
    CacheComponent,
    CacheEvent,
    CacheName,
    CacheState,
    CompileError,
    CompileId,
    CompileMetrics,
    GraphBreak,
    GuardCount,
    LogFrame,
    LoggedSymbol,
    LogStack,
    Payload,
    Specialization,
    SymbolGuard,
)

MAX_STRINGS = 100_000
MAX_FRAMES = 1_000
"""Frames of one stack that are kept: the outermost and the innermost."""
_RESUME = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_(?P<line>\d{1,9})$")
_BROKE_AT = re.compile(r"Graph [Bb]reak in user code at (?P<path>.+):(?P<line>\d{1,9})$", re.MULTILINE)
_REASON = re.compile(r"^(?:Graph Break )?Reason: ", re.MULTILINE)
"""Torch 2.6 prints the second word alone."""
_NO_RESUME = "Encountered graph break that we cannot resume from"
_PRINTED_FRAME = re.compile(
    r'^  File "(?P<path>[^"\n]+)", line (?P<line>\d{1,9}), in (?P<function>[^\n]+)(?:\n    (?P<text>[^\n]+))?',
    re.MULTILINE,
)
_GUARD = re.compile(rb"\+- [A-Z_]+: ")
_LATENCY = re.compile(rb"Guard latency = ([\d.]{1,20}) us")
_CACHE = re.compile(
    r"(?P<cache>[a-z]\w*?)(?:_(?P<where>remote|local|bundled))?_cache_(?P<state>hit|miss|bypass|saved?)$"
)
_CACHES = {name.value: name for name in CacheName} | {"autograd": CacheName.AOTAUTOGRAD}
_STATES = {state.value: state for state in CacheState} | {"save": CacheState.SAVED}
_PROFILE = {
    "get_local_code_state": (CacheState.HIT, False),
    "get_remote_code_state": (CacheState.HIT, True),
    "put_local_code_state": (CacheState.SAVED, False),
    "put_remote_code_state": (CacheState.SAVED, True),
}
_COMPONENT = re.compile(r"\[(?P<hash>\w+)\] (?P<name>[^:]+): (?P<value>.*)", re.DOTALL)
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:: |$)")
_LONGEST_REASON = 2_000
_LARGEST = 1e300


class BadRecordError(ValueError):
    """A record that does not have the form of its kind."""


@dataclass
class Strings:
    """File names that a log interns: number to text."""

    names: dict[int, str] = field(default_factory=dict)

    def intern_name(self, value: object) -> None:
        """Take in a record that interns a name."""
        if not isinstance(value, list) or len(value) != 2 or type(value[1]) is not int:  # noqa: PLR2004
            raise BadRecordError("an interned string is not a text and a number")
        if len(self.names) >= MAX_STRINGS:
            raise BadRecordError("too many interned strings")
        self.names[value[1]] = one_line(str(value[0]))

    def contradicts(self, value: object) -> bool:
        """Whether a record gives a number another text: the log of another process has started."""
        return (
            isinstance(value, list)
            and len(value) == 2  # noqa: PLR2004
            and type(value[1]) is int
            and self.names.get(value[1], one_line(str(value[0]))) != one_line(str(value[0]))
        )

    def stack(self, frames: object) -> LogStack:
        """A stack of a record, outermost first."""
        if frames is None:
            return ()
        if not isinstance(frames, list):
            raise BadRecordError("a stack is not a list")
        return tuple(self._frame(frame) for frame in _ends(frames))

    def _frame(self, frame: object) -> LogFrame:
        if not isinstance(frame, Mapping) or type(frame.get("line")) is not int:
            raise BadRecordError("a frame of a stack has no line number")
        name, text = frame.get("filename"), frame.get("loc")
        path = self.names.get(name, f"<file {name}>") if type(name) is int else one_line(str(name))
        function, _ = function_and_resumption(one_line(str(frame.get("name", ""))))
        return LogFrame(
            path, frame["line"], function, one_line(text) if isinstance(text, str) and text else None
        )


def _ends(frames: list[Any]) -> list[Any]:
    if len(frames) <= MAX_FRAMES:
        return frames
    return frames[: MAX_FRAMES // 2] + frames[-MAX_FRAMES // 2 :]


def function_and_resumption(name: str) -> tuple[str, int | None]:
    """The function that a code object's name stands for, and the line at which a resume function goes on."""
    line = None
    while match := _RESUME.match(name):
        name = match["name"]
        line = int(match["line"]) if line is None else line
    return name, line


def mapping(value: object) -> Mapping[str, Any]:
    """The value, an object of JSON."""
    if not isinstance(value, Mapping):
        raise BadRecordError("an object was expected")
    return value


def read_break(text: str, payload: Payload) -> GraphBreak | None:
    """A graph break; None for a record that names no line: Dynamo skipped the frame."""
    match = _BROKE_AT.search(text)
    if match is None:
        return None
    reason, _, rest = text[match.end() :].partition("\nUser code traceback:\n")
    head = _REASON.search(reason)
    reason = "" if head is None else reason[head.end() :]
    stack = read_printed_stack(rest.partition("\n\nTraceback (most recent call last)")[0])
    where = Location(match["path"], int(match["line"]))
    if stack and (stack[-1].path, stack[-1].line) == (where.path, where.line):
        where = stack[-1].location
    chain = read_registered_reasons(_without_preface(reason))
    return GraphBreak(where, chain, stack, payload, ends_function=reason.startswith(_NO_RESUME))


def _without_preface(reason: str) -> str:
    """Drop the first paragraph, in which torch states how it continues after the break; the reason follows."""
    head, gap, rest = reason.strip("\n").partition("\n\n")
    return rest if gap and head.rstrip().endswith(":") and "\n" not in head else reason.strip("\n")


def read_printed_stack(text: str) -> LogStack:
    """The frames of a printed traceback.

    Its caret lines count from the first character that is not blank, and so give no columns without the file.
    """
    return tuple(
        LogFrame(
            match["path"],
            int(match["line"]),
            function_and_resumption(match["function"].strip())[0],
            match["text"],
        )
        for match in _ends(list(_PRINTED_FRAME.finditer(text)))
    )


def read_imports(text: str) -> Imports:
    """What a process imported, as Fuselight recorded it."""
    try:
        imports = decode(Imports, parse_json(text))
    except DecodeError as error:
        raise BadRecordError(f"imports: {error}") from error
    times = [imports.began, imports.until_compile, imports.seconds, imports.outside_seconds]
    times += [seconds for line in imports.lines for seconds in (line.seconds, line.own_seconds)]
    if not all(math.isfinite(seconds) and seconds >= 0 for seconds in times):
        raise BadRecordError("imports: a time is not a number of seconds")
    return imports


def read_recompile_reasons(text: str) -> tuple[str, ...]:
    """One text for each cache entry; torch writes a JSON list or, for one entry, the bare text."""
    try:
        reasons = parse_json(text) if text.strip() else []
    except ValueError:
        reasons = text
    return tuple(map(str, reasons)) if isinstance(reasons, list) else (str(reasons),)


def read_guards(payload: bytes, where: Payload) -> GuardCount:
    """How many guards a printed tree has."""
    latency = _LATENCY.search(payload)
    try:
        microseconds = None if latency is None else float(latency[1])
    except ValueError:
        microseconds = None
    return GuardCount(len(_GUARD.findall(payload)), microseconds, where)


def read_symbol(value: Any, strings: Strings, *, is_unbacked: bool) -> LoggedSymbol:
    """A symbol that was created."""
    created = mapping(value)
    return LoggedSymbol(
        one_line(str(created.get("symbol"))),
        None if is_unbacked else _name(created.get("val")),
        _name(created.get("source")),
        _name(created.get("vr")),
        strings.stack(created.get("user_stack")),
    )


def read_specialization(value: Any, strings: Strings) -> Specialization:
    """A symbol that was fixed."""
    fixed = mapping(value)
    sources = fixed.get("sources")
    return Specialization(
        symbol=one_line(str(fixed.get("symbol"))),
        sources=tuple(one_line(str(source)) for source in sources) if isinstance(sources, list) else (),
        value=one_line(str(fixed.get("value"))),
        reason=str(fixed.get("reason")),
        stack=strings.stack(fixed.get("user_stack")),
    )


def read_symbol_guard(value: Any, strings: Strings) -> SymbolGuard:
    """A condition on symbols."""
    guard = mapping(value)
    return SymbolGuard(one_line(str(guard.get("expr"))), strings.stack(guard.get("user_stack")))


def read_error(text: str, payload: Payload) -> CompileError:
    """The exception of a compile: the first line without indentation after the frames of its traceback."""
    lines = [line for line in text.split("\n") if line.strip()]
    summary = next(
        (line for line in reversed(lines) if _RAISED.match(line)),
        lines[0] if lines else "",
    )
    return CompileError(summary[:_LONGEST_REASON], payload)


def read_metrics(value: Any, head: Payload, *, is_backward: bool) -> CompileMetrics:
    """Torch's metrics of a compile; older releases count in seconds, newer ones in microseconds, too."""
    metrics = mapping(value)
    restarts = metrics.get("restart_reasons")
    return CompileMetrics(
        is_backward=is_backward or metrics.get("is_forward") is False,
        function=None
        if metrics.get("co_name") is None
        else function_and_resumption(one_line(str(metrics["co_name"])))[0],
        path=_name(metrics.get("co_filename")),
        line=integer(metrics.get("co_firstlineno")),
        started=_number(metrics.get("start_time")),
        seconds=_first(metrics, "entire_frame_compile_time_s", "duration_us"),
        inductor_seconds=_first(metrics, "inductor_compile_time_s", "inductor_cumulative_compile_time_us"),
        operators=integer(metrics.get("graph_op_count")),
        guards=integer(metrics.get("guard_count")),
        graph_breaks=integer(metrics.get("num_graph_breaks")),
        fail_type=_name(metrics.get("fail_type")),
        fail_reason=_text(metrics.get("fail_reason")),
        restarts=tuple(map(str, restarts)) if isinstance(restarts, list) else (),
        head=head,
    )


def version_in(metrics: Any) -> str | None:
    """Torch's version in the metrics of a compile."""
    version = mapping(metrics).get("pytorch_version")
    return one_line(version[:100]) if isinstance(version, str) else None


def _first(metrics: Mapping[str, Any], *names: str) -> float | None:
    """The first recorded field, in seconds."""
    for name in names:
        value = _number(metrics.get(name))
        if value is not None:
            return value / 1e6 if name.endswith("_us") else value
    return None


def is_cache_record(name: str) -> bool:
    """Whether a record of this name reports a lookup in a cache."""
    return name in _PROFILE or _CACHE.match(name) is not None


def read_cache_event(name: str, text: str, payload: Payload, compile_id: CompileId | None) -> CacheEvent:
    """A lookup in a cache."""
    try:
        body = parse_json(text) if text.strip() else {}
    except ValueError as error:
        body = {}
        if name not in _PROFILE:
            raise BadRecordError("the payload of a cache's record is not JSON") from error
    if not isinstance(body, dict):
        body = {}
    match = _CACHE.match(name)
    is_remote: bool | None
    if match is None:
        cache, (state, is_remote) = CacheName.PROFILE, _PROFILE[name]
    else:
        cache, state = _CACHES.get(match["cache"], CacheName.OTHER), _STATES[match["state"]]
        is_remote = {"remote": True, "local": False}.get(match["where"] or "")
    components = body.get("components")
    saved, nanoseconds = _number(body.get("time_saved_ns")), _number(body.get("cache_event_time"))
    return CacheEvent(
        cache=cache,
        state=state,
        record=name,
        compile_id=compile_id,
        key=_name(body.get("key")),
        is_remote=is_remote,
        time_saved=None if saved is None else saved / 1e9,
        detail=_text(body.get("cache_status_detailed")),
        reason=_short(body.get("cache_bypass_reason", body.get("cache_bypass_reasons", body.get("reason")))),
        exception=_short(body.get("cache_bypass_exception_type")),
        components=len(components) if isinstance(components, list) else None,
        time=None if nanoseconds is None else nanoseconds / 1e9,
        payload=payload,
    )


def read_components(text: str) -> tuple[CacheComponent, ...] | None:
    """The factors of a cache's key, from the payload of its record; None if it has no list of them."""
    try:
        components = parse_json(text).get("components")
    except (ValueError, AttributeError, RecursionError):
        return None
    return tuple(map(_component, components)) if isinstance(components, list) else None


def _component(value: object) -> CacheComponent:
    match = _COMPONENT.fullmatch(str(value))
    return (
        CacheComponent("", "", str(value))
        if match is None
        else CacheComponent(match["name"], match["hash"], match["value"])
    )


def _short(value: object) -> str | None:
    return None if value is None else str(value)[:_LONGEST_REASON]


def _name(value: object) -> str | None:
    """A value that stands within a line where it is shown."""
    return None if value is None else one_line(str(value))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def integer(value: object) -> int | None:
    """The value if it is a whole number."""
    return value if type(value) is int else None


def _number(value: object) -> float | None:
    return float(value) if type(value) in {int, float} and abs(value) < _LARGEST else None  # type: ignore[arg-type]
