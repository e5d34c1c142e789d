"""The compiled functions of two jobs in pairs, with what each job compiled of them.

Invariant: a function of one job is in at most one pair. Functions of the same name in a file are paired by their class,
by the text of their line, by their line, and by their order where as many are left in both jobs.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fuselight.shared.report import Compile, Frame, Location, Recompile
from fuselight.shared.torch_texts import in_user_words
from fuselight_server.jobs.comparison.generated_code import GeneratedCode, read_generated
from fuselight_server.jobs.comparison.model import FunctionChange, FunctionFacts
from fuselight_server.jobs.comparison.sides import ComparedSide, LoggedReport
from fuselight_server.jobs.reports.moved_lines import last_name
from fuselight_server.jobs.trace_log.files import LogError
from fuselight_server.jobs.trace_log.model import LoggedCompile
from fuselight_server.jobs.trace_log.payloads import read_texts

_ENTRY = re.compile(r"\[?!?[\w/]+\]?: ")
"""The compile ID before a reason."""
CompileKey = tuple[str, str]
"""Log and compile ID."""


@dataclass
class _LoggedFunction:
    """What a job compiled of the code that starts on a line."""

    name: str
    location: Location
    """With the path that both jobs use."""
    is_resumed: bool
    text: str | None
    """The line, as the log quotes it."""
    compiles: list[CompileKey] = field(default_factory=list)
    operators: list[int] = field(default_factory=list)
    recompilations: int = 0
    reasons: dict[str, None] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    codes: list[GeneratedCode] = field(default_factory=list)
    is_code_known: bool = True

    @property
    def group(self) -> Hashable:
        """What functions of a pair have in common."""
        return self.location.path, last_name(self.name), self.is_resumed

    def facts(self) -> FunctionFacts:
        """As a comparison has it."""
        is_known = self.is_code_known and bool(self.codes)
        keys = "".join(key for code in self.codes for key in code.keys)
        return FunctionFacts(
            location=self.location,
            compiles=len(self.compiles),
            operators=tuple(self.operators),
            recompilations=self.recompilations,
            reasons=tuple(self.reasons),
            seconds=sum(self.seconds) if self.seconds else None,
            kernels=tuple(name for code in self.codes for name in code.kernels) if is_known else None,
            code_key=hashlib.sha256(keys.encode()).hexdigest() if is_known else None,
        )


@dataclass(frozen=True)
class PairedFunctions:
    """The functions of two jobs."""

    changes: tuple[FunctionChange, ...]
    after: Mapping[CompileKey, int]
    """Compile of the later job → index in `changes`."""
    before: Mapping[CompileKey, int]


def pair_functions(
    after: tuple[ComparedSide, Sequence[LoggedReport]], before: tuple[ComparedSide, Sequence[LoggedReport]]
) -> PairedFunctions:
    """The functions of the compared processes of both jobs."""
    ours, theirs = _read_functions(*after), _read_functions(*before)
    our_groups, their_groups = _grouped(ours), _grouped(theirs)
    pairs = [
        pair
        for group in dict.fromkeys((*our_groups, *their_groups))
        for pair in _pairs(our_groups.get(group, []), their_groups.get(group, []))
    ]
    pairs.sort(key=lambda pair: -max(_seconds(function) for function in pair))
    return PairedFunctions(
        tuple(_change(*pair) for pair in pairs),
        _indexes(pair[0] for pair in pairs),
        _indexes(pair[1] for pair in pairs),
    )


def _grouped(functions: Iterable[_LoggedFunction]) -> dict[Hashable, list[_LoggedFunction]]:
    groups: dict[Hashable, list[_LoggedFunction]] = defaultdict(list)
    for function in functions:
        groups[function.group].append(function)
    return groups


def _seconds(function: _LoggedFunction | None) -> float:
    return sum(function.seconds) if function else 0.0


def _indexes(functions: Iterable[_LoggedFunction | None]) -> dict[CompileKey, int]:
    return {
        key: index
        for index, function in enumerate(functions)
        if function is not None
        for key in function.compiles
    }


def _change(after: _LoggedFunction | None, before: _LoggedFunction | None) -> FunctionChange:
    function = after or before
    assert function is not None  # noqa: S101 - a pair has one at least
    return FunctionChange(
        name=max((item.name for item in (after, before) if item is not None), key=lambda name: "." in name),
        is_resumed=function.is_resumed,
        location=function.location,
        before=None if before is None else before.facts(),
        after=None if after is None else after.facts(),
    )


def _read_functions(side: ComparedSide, processes: Sequence[LoggedReport]) -> list[_LoggedFunction]:
    functions: dict[tuple[str, int, bool], _LoggedFunction] = {}
    for process in processes:
        logged = {str(compiled.id): compiled for compiled in process.log.compiles}
        again = {item.compile_id: item for item in process.report.recompiles if item.compile_id is not None}
        for compiled in process.report.compiles:
            function = _function(functions, side, process.report.frames[compiled.frame])
            function.compiles.append((process.log.file, compiled.id))
            _add_compile(function, compiled, logged.get(compiled.id), again.get(compiled.id))
    return list(functions.values())


def _function(
    functions: dict[tuple[str, int, bool], _LoggedFunction], side: ComparedSide, frame: Frame
) -> _LoggedFunction:
    is_resumed = frame.resumes_at is not None
    location = frame.location if frame.resumes_at is None else replace(frame.location, line=frame.resumes_at)
    key = (location.path, location.line, is_resumed)
    if key not in functions:
        functions[key] = _LoggedFunction(
            frame.function,
            side.common_location(location),
            is_resumed,
            side.quote(location.path, location.line),
        )
    return functions[key]


def _add_compile(
    function: _LoggedFunction,
    compiled: Compile,
    logged: LoggedCompile | None,
    recompile: Recompile | None,
) -> None:
    if compiled.graph is not None:
        function.operators.append(compiled.graph.operators)
    if recompile is not None:
        function.recompilations += 1
        function.reasons |= dict.fromkeys(filter(None, map(_plain_reason, recompile.reasons)))
    if logged is None:
        return
    metrics = (row for attempt in logged.attempts for row in attempt.metrics)
    function.seconds += [row.seconds for row in metrics if row.seconds is not None]
    if compiled.graph is None:
        return
    code = _read_code(logged)
    if code is None:
        function.is_code_known = False
    else:
        function.codes.append(code)


def _read_code(logged: LoggedCompile) -> GeneratedCode | None:
    """The code of a compile; None if the log does not have it."""
    payloads = [code.payload for code in logged.last.output_codes]
    try:
        return read_generated(text for _, text in read_texts(payloads)) if payloads else None
    except LogError:
        return None


def _plain_reason(reason: str) -> str:
    """The condition that failed, without the ID of the compile and without its comment."""
    line = reason.partition("\n")[0]
    entry = _ENTRY.match(line)
    return in_user_words((line[entry.end() :] if entry else line).partition("  #")[0].strip())


_Pair = tuple["_LoggedFunction | None", "_LoggedFunction | None"]
_Key = Callable[["_LoggedFunction"], "Hashable | None"]


def _pairs(after: list[_LoggedFunction], before: list[_LoggedFunction]) -> Iterator[_Pair]:
    for key in (_text_and_line, _text, _class, _line):
        for pair in _equal(after, before, key):
            after.remove(pair[0])
            before.remove(pair[1])
            yield pair
    after.sort(key=_line)
    before.sort(key=_line)
    if len(after) == len(before) and all(map(_may_be_same, after, before)):
        yield from zip(after, before, strict=True)
    else:
        yield from ((function, None) for function in after)
        yield from ((None, function) for function in before)


def _equal(
    after: Sequence[_LoggedFunction], before: Sequence[_LoggedFunction], key: _Key
) -> list[tuple[_LoggedFunction, _LoggedFunction]]:
    """The functions of which only one of each job has a key."""
    ours, theirs = _by_key(after, key), _by_key(before, key)
    return [
        (functions[0], theirs[value][0])
        for value, functions in ours.items()
        if len(functions) == 1 and len(theirs.get(value, ())) == 1
        if _may_be_same(functions[0], theirs[value][0])
    ]


def _by_key(functions: Iterable[_LoggedFunction], key: _Key) -> dict[Hashable, list[_LoggedFunction]]:
    by_key: dict[Hashable, list[_LoggedFunction]] = defaultdict(list)
    for function in functions:
        value = key(function)
        if value is not None:
            by_key[value].append(function)
    return by_key


def _may_be_same(after: _LoggedFunction, before: _LoggedFunction) -> bool:
    """Whether the classes are equal, or one of them is unknown."""
    return after.name == before.name or not ("." in after.name and "." in before.name)


def _text_and_line(function: _LoggedFunction) -> Hashable | None:
    return function.text and (function.text, function.location.line)


def _text(function: _LoggedFunction) -> str | None:
    return function.text


def _class(function: _LoggedFunction) -> str | None:
    return function.name if "." in function.name and not function.is_resumed else None


def _line(function: _LoggedFunction) -> int:
    return function.location.line
