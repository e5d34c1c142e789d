"""What every family needs to know of the report: whose file a frame is in, and where a finding goes.

Invariant: a primary span is in the workspace (the target's line, where no frame of the facts is); library frames
are related.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import fuselight_server
from fuselight.shared.report import (
    CallCure,
    Compile,
    CureTrial,
    Frame,
    Location,
    Report,
    Stack,
    is_pythons_own,
    is_user_file,
)
from fuselight_server.base.finding import Finding, Related, Severity, Span
from fuselight_server.base.remedies import FindingRemedy, RemedyState, advised, in_order
from fuselight_server.base.thresholds import DEFAULT_THRESHOLDS, Thresholds
from fuselight_server.explain.findings.common import catalogue
from fuselight_server.explain.findings.common.refused_calls import is_of_refused_call, refused_calls
from fuselight_server.explain.findings.common.text import compose, inputs_line, label, without_resume_names

MAX_LINES = 20_000
"""Lines of a file that are read to search it."""
_FUNCTION_LINES = 400
"""Lines above a line among which the `def` of its function is looked for."""
_CLASS_LINES = 2000
"""Lines above a method in which its class is looked for."""
_OF_SUBCLASS = frozenset({"__torch_function__", "__torch_dispatch__"})
"""Functions that torch calls in place of an operator."""
_CLASS = re.compile(r"\s*class\s+(\w+)")
_MACHINERY = f"torch{os.sep}_dynamo{os.sep}"
_SERVER = f"{Path(fuselight_server.__file__).parent}{os.sep}"
"""Dynamo's own Python stands in for calls that it rewrites, so it is on traced stacks; it explains nothing."""


@dataclass(frozen=True, eq=False)
class Context:
    """One report, with what projecting it takes. It is equal to itself alone: modules keep what they read of it."""

    report: Report
    thresholds: Thresholds
    read_line: Callable[[str, int], str | None]
    roots: tuple[str, ...]

    @classmethod
    def of(
        cls,
        report: Report,
        thresholds: Thresholds = DEFAULT_THRESHOLDS,
        read_line: Callable[[str, int], str | None] | None = None,
    ) -> Context:
        """The context of a report; without roots, the folder of the target's file is the workspace."""
        roots = report.roots or (os.path.dirname(report.target.path),)  # noqa: PTH120 - paths stay text
        return cls(report, thresholds, read_line or (lambda _path, _line: None), roots)

    def lines_of(self, path: str) -> Iterator[str]:
        """The lines of a file as it was run, up to `MAX_LINES`; none of a file that is not known."""
        for number in range(1, MAX_LINES + 1):
            line = self.read_line(path, number)
            if line is None:
                return
            yield line.rstrip("\n")

    def text_of(self, path: str) -> str:
        """The text of a file as it was run; empty for a file that is not known."""
        return "\n".join(self.lines_of(path))

    @cached_property
    def estimated_us(self) -> float:
        """Of all launches of the target together: an estimate."""
        return sum(kernel.estimate_us or 0.0 for graph in self.report.generated for kernel in graph.kernels)

    @cached_property
    def _compiles(self) -> dict[str, Compile]:
        return {record.id: record for record in reversed(self.report.compiles)}

    @cached_property
    def value_changes(self) -> dict[tuple[str, Location, str], list[tuple[str, str]]]:
        """The values before and after each recompilation, by function, its line, and the guarded value."""
        changes: dict[tuple[str, Location, str], list[tuple[str, str]]] = {}
        for item in self.report.recompiles:
            for failure in item.entries[0].failures if item.entries else ():
                place = item.function, item.location, failure.source
                changes.setdefault(place, []).append((failure.was or "", failure.now or ""))
        return changes

    @cached_property
    def trials(self) -> dict[CallCure, CureTrial]:
        """The cures that were tried."""
        return {trial.cure: trial for trial in self.report.trials}

    @cached_property
    def _refused_calls(self) -> frozenset[int | None]:
        return refused_calls(self.report)

    def is_of_refused_call(self, call: int | None, gb_id: str | None) -> bool:
        """Whether a break is nothing but the exception of a call whose directive does not fit."""
        return is_of_refused_call(self._refused_calls, call, gb_id)

    def compile_of(self, identity: str | None) -> Compile | None:
        """The compile of an id; None where the report has none."""
        return self._compiles.get(identity or "")

    def frame_of(self, compiled: Compile | None) -> Frame | None:
        """The frame of a compile; None where the report has none."""
        frames = self.report.frames
        return frames[compiled.frame] if compiled is not None and compiled.frame < len(frames) else None

    def compiles_of(self, function: str, location: Location) -> list[Compile]:
        """All compiles of a function and of its parts after graph breaks, in order."""
        wanted = (function, location.path, location.line)
        of_frames = [
            (frame.function, frame.location.path, frame.location.line) for frame in self.report.frames
        ]
        known = {index for index, frame in enumerate(of_frames) if frame == wanted}
        return [record for record in self.report.compiles if record.frame in known]

    def is_user_file(self, path: str) -> bool:
        """Whether the file is the user's: the target's file, or a file of the workspace."""
        return path == self.report.target.path or is_user_file(path, self.roots)

    def innermost_user_frame(self, *stacks: Stack) -> Location | None:
        """The innermost user's frame of the first stack that has one."""
        frames = (frame for stack in stacks for frame in reversed(stack))
        return next((frame for frame in frames if self.is_user_file(frame.path)), None)

    def reading_frame(self, born: Stack) -> Location | None:
        """The innermost user's frame that reads a value.

        Where a library reads it for an operator that a tensor subclass passes on, that is the line with the operator.
        """
        home = self.innermost_user_frame(born)
        if home is None or home.function not in _OF_SUBCLASS or self.is_user_file(born[-1].path):
            return home
        outside = tuple(itertools.takewhile(lambda frame: frame.function not in _OF_SUBCLASS, born))
        return self.innermost_user_frame(outside) or home

    def first_of_user(self, *places: Location | None) -> Location | None:
        """The first of the places that is in a file of the user's."""
        return next((place for place in places if place and self.is_user_file(place.path)), None)

    def def_above(self, read: Location) -> Location | None:
        """The `def` line of the function that a line is in: the nearest above that names it."""
        wanted = re.compile(rf"\s*(?:async\s+)?def\s+{re.escape(read.function or '')}\s*[\[(]")
        for line in range(read.line, max(read.line - _FUNCTION_LINES, 0), -1):
            if read.function and wanted.match(self.read_line(read.path, line) or ""):
                return Location(read.path, line, function=read.function)
        return None

    def qualified_name(self, frame: Location) -> str:
        """The function of a frame, with its class if the source shows one: `Net.forward`."""
        name = frame.function or ""
        above = self.def_above(frame) if "." not in name else None
        if above is None:
            return name
        depth = _indentation(self.read_line(above.path, above.line) or "")
        for line in range(above.line - 1, max(above.line - _CLASS_LINES, 0), -1):
            text = self.read_line(above.path, line) or ""
            if text.strip() and not text.lstrip().startswith("#") and _indentation(text) < depth:
                owner = _CLASS.match(text)
                return f"{owner[1]}.{name}" if owner else name
        return name

    def trail(
        self, frames: Iterable[Location], *, without: Location | None, verb: str
    ) -> tuple[Related, ...]:
        """Related spans for frames, innermost first, each place once; without Python's own files and `without`."""
        seen = {(without.path, without.line)} if without else set()
        out = []
        for frame in reversed(tuple(frames)):
            if (frame.path, frame.line) in seen or is_machinery(frame.path) or is_pythons_own(frame.path):
                continue
            seen.add((frame.path, frame.line))
            name = self.qualified_name(frame)
            out.append(Related(span_of(frame), f"{verb} `{name}`" if name else verb))
        return tuple(out)

    def home_of_graph(self, compile_id: str) -> Location | None:
        """The function whose compile made a graph; of a target without a definition else the first call of the run."""
        frame = self.frame_of(self.compile_of(compile_id))
        inputs = self.report.inputs if self.report.target.kind in {"main", "call"} else None
        calls = [call.location for call in inputs.calls] if inputs is not None else []
        known = (frame.location if frame is not None else None, *calls)
        return next((place for place in known if place is not None and self.is_user_file(place.path)), None)

    def target_location(self) -> Location:
        """The line of the target's definition."""
        target = self.report.target
        return Location(target.path, max(target.line, 1))

    def source(self, location: Location) -> str | None:
        """The line's text without indentation, None where it cannot be read."""
        text = self.read_line(location.path, location.line)
        return text.strip() or None if text is not None else None

    def finding(
        self,
        code: str,
        title: str,
        *text: str,
        at: Location | None = None,
        span: Span | None = None,
        stack: Stack = (),
        cost: Iterable[str] = (),
        hints: Iterable[str | FindingRemedy] = (),
        call: int | None = None,
        severity: Severity | None = None,
        **more: Any,
    ) -> Finding:
        """A finding with the fields that come from the report filled in; its message has `text`, `cost` and `hints`.

        It is at `span`, else at the line `at`, else at the innermost workspace frame of the traced `stack`, whose other
        frames are related, else at the target.
        """
        if stack:
            at = at or self.innermost_user_frame(stack)
            more["related"] = self.trail(stack, without=at, verb="in")
        cost = tuple(map(without_resume_names, cost))
        remedies = in_order(
            self._with_reason(hint if isinstance(hint, FindingRemedy) else FindingRemedy(hint)).renamed(
                without_resume_names
            )
            for hint in hints
        )
        related = more.pop("related", ())
        title = without_resume_names(title)
        short = label(title)
        if short != title:
            text = (*text[:1], f"In full: {title}", *text[1:])
        return Finding(
            code=code,
            severity=catalogue.severity(code) if severity is None else severity,
            title=short,
            message=without_resume_names(compose(*text, cost=cost, hints=advised(remedies))),
            related=tuple(replace(value, message=without_resume_names(value.message)) for value in related),
            span=span or span_of(at or self.target_location()),
            cost=cost,
            remedies=remedies,
            tier=self.report.tier,
            target=self.report.target.name or "__main__",
            target_path=self.report.target.path,
            inputs=inputs_line(self.report.inputs, call),
            torch=self.report.versions.torch or "unknown",
            link=catalogue.link(code),
            **more,
        )

    def _with_reason(self, remedy: FindingRemedy) -> FindingRemedy:
        """A change that was not tried with the reason, where no trial of the report could be made."""
        problem = next((item for item in self.report.problems if item.stage == TRIALS), None)
        is_open = remedy.state is RemedyState.NOT_TRIED and remedy.cure is not None and not remedy.why
        return replace(remedy, why=problem.why) if problem is not None and is_open else remedy


TRIALS = "trials"
"""The stage of a problem that kept all trials of a report from being made."""


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip())


def is_machinery(path: str) -> bool:
    """Whether the file is part of Dynamo, or of Fuselight's side of a check in the user's process."""
    return _MACHINERY in path or path.startswith(_SERVER)


def span_of(location: Location) -> Span:
    """The span of a location; without its end where the reported end does not follow the start."""
    start = (location.line, location.column or 0)
    end = (location.end_line or location.line, location.end_column or 0)
    if end <= start:
        return Span(location.path, location.line, location.column)
    return Span(location.path, location.line, location.column, location.end_line, location.end_column)
