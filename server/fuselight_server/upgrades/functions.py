"""The compiled functions of a target on both sides, in pairs: graphs, recompilations, kernels.

Invariant: a function of one side is in at most one pair. A function of the user's file has the same line on both sides;
functions of libraries, whose lines can differ, are paired by name and order where both sides have as many.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from fuselight.shared.report import Frame, Kernel, Location, Recompile, Report
from fuselight.shared.torch_texts import in_user_words
from fuselight_server.jobs.comparison.model import FunctionChange, FunctionFacts
from fuselight_server.upgrades.model import SideReports
from fuselight_server.upgrades.paths import STANDARD_PATHS, InstalledPaths

_COUNTER = re.compile(r"_\d+$")
"""Of a kernel's name: its position in the generated code."""
_ENTRY = re.compile(r"\[?!?[\w/]+\]?: ")
"""The compile ID before a reason."""


@dataclass
class _CompiledCode:
    """What one side compiled of the code that starts on a line."""

    name: str
    location: Location
    is_resumed: bool
    compiles: int = 0
    operators: list[int] = field(default_factory=list)
    recompilations: int = 0
    reasons: dict[str, None] = field(default_factory=dict)
    kernels: list[str] | None = None

    @property
    def facts(self) -> FunctionFacts:
        """As a comparison has it."""
        return FunctionFacts(
            location=self.location,
            compiles=self.compiles,
            operators=tuple(self.operators),
            recompilations=self.recompilations,
            reasons=tuple(self.reasons),
            seconds=None,
            kernels=None if self.kernels is None else tuple(self.kernels),
            code_key=None,
        )


_Key = tuple[str, str, bool]
_Pair = tuple["_CompiledCode | None", "_CompiledCode | None"]


def compare_functions(
    before: SideReports, after: SideReports, paths: InstalledPaths = STANDARD_PATHS
) -> tuple[FunctionChange, ...]:
    """The functions of both sides, in the order of the later side."""
    theirs, ours = _read(before, paths), _read(after, paths)
    pairs = [
        pair
        for key in dict.fromkeys((*ours, *theirs))
        for pair in _pairs(ours.get(key, []), theirs.get(key, []))
    ]
    return tuple(_change(*pair) for pair in pairs)


def _read(side: SideReports, paths: InstalledPaths) -> dict[_Key, list[_CompiledCode]]:
    functions: dict[_Key, dict[int, _CompiledCode]] = defaultdict(dict)
    report = side.capture
    again = {item.compile_id: item for item in report.recompiles if item.compile_id is not None}
    for compiled in report.compiles:
        function = _function(functions, report.frames[compiled.frame], paths)
        function.compiles += 1
        if compiled.graph is not None:
            function.operators.append(compiled.graph.operators)
        recompile = again.get(compiled.id)
        if recompile is not None:
            function.recompilations += 1
            function.reasons |= dict.fromkeys(_reasons(recompile))
    if side.kernels is not None and not side.kernels.failures:
        _add_kernels(functions, side.kernels, paths)
    return {key: [compiled for _, compiled in sorted(lines.items())] for key, lines in functions.items()}


def _function(
    functions: dict[_Key, dict[int, _CompiledCode]], frame: Frame, paths: InstalledPaths
) -> _CompiledCode:
    is_resumed = frame.resumes_at is not None
    line = frame.location.line if frame.resumes_at is None else frame.resumes_at
    path = paths.common(frame.location.path)
    lines = functions[path, frame.function, is_resumed]
    if line not in lines:
        location = replace(frame.location, path=path, line=line)
        lines[line] = _CompiledCode(frame.function, location, is_resumed)
    return lines[line]


def _add_kernels(
    functions: dict[_Key, dict[int, _CompiledCode]], report: Report, paths: InstalledPaths
) -> None:
    frames = {compiled.id: report.frames[compiled.frame] for compiled in report.compiles}
    for graph in report.generated:
        frame = frames.get(graph.compile_id)
        if frame is not None:
            function = _function(functions, frame, paths)
            function.kernels = (function.kernels or []) + [_kernel_name(kernel) for kernel in graph.kernels]


def _kernel_name(kernel: Kernel) -> str:
    return _COUNTER.sub("", kernel.name)


def _reasons(recompile: Recompile) -> Iterator[str]:
    for reason in recompile.reasons:
        line = reason.partition("\n")[0]
        entry = _ENTRY.match(line)
        yield in_user_words((line[entry.end() :] if entry else line).partition("  #")[0].strip())


def _pairs(after: list[_CompiledCode], before: list[_CompiledCode]) -> Iterator[_Pair]:
    by_line = {function.location.line: function for function in before}
    left = []
    for function in after:
        same = by_line.pop(function.location.line, None)
        if same is None:
            left.append(function)
        else:
            yield function, same
    rest = list(by_line.values())
    if len(left) == len(rest):
        yield from zip(left, rest, strict=True)
    else:
        yield from ((function, None) for function in left)
        yield from ((None, function) for function in rest)


def _change(after: _CompiledCode | None, before: _CompiledCode | None) -> FunctionChange:
    function = after or before
    assert function is not None  # noqa: S101 - a pair has one at least
    return FunctionChange(
        name=function.name,
        is_resumed=function.is_resumed,
        location=function.location,
        before=None if before is None else before.facts,
        after=None if after is None else after.facts,
    )
