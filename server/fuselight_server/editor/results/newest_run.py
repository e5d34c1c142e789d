"""Which findings of a stale result still count: a function is judged by the newest run of its current text.

Invariant: a finding is hidden only where a newer run covered its function and did not repeat the finding. The report of
the older run keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.target_result import TargetResult
from fuselight_server.source.positions import TrackedFinding, span

_CLOSING = (")", "]", "}")
"""What the last line of a parameter list may begin with, as deep as its `def`."""


class FindingValidity(Enum):
    """What a newer run makes of a finding."""

    HOLDS = "holds"
    DOUBTFUL = "doubtful"
    """The code was edited since, and a newer run failed or left this function out."""
    REPLACED = "replaced"
    """A newer run covered the function."""


@dataclass(frozen=True)
class NewestRun:
    """The complete captures that ran one file, and the lines of the file as they are now."""

    path: str
    captures: tuple[CaptureResult, ...]
    line: Callable[[int], str | None]

    @classmethod
    def of(
        cls, path: str, results: Iterable[TargetResult], read_line: Callable[[str, int], str | None]
    ) -> NewestRun:
        """Choose the captures that ran the file and did not fail."""
        complete = (
            target_result
            for target_result in results
            if isinstance(target_result, CaptureResult)
            and target_result.has_data
            and not target_result.report.failures
            and path in target_result.report.files
        )
        return cls(path, tuple(complete), lambda number: read_line(path, number))

    def validity(
        self, finding: TrackedFinding, result: TargetResult, newest: TargetResult
    ) -> FindingValidity:
        """Say whether a finding of `result` still counts; `newest` is the newest result of the same target.

        That a newer run exists is not enough: it may have taken another branch and never reached the function. Such a
        finding stays, as doubtful.
        """
        has_failed = result is not newest and not newest.unfinished
        otherwise = (
            FindingValidity.DOUBTFUL
            if has_failed and not result.depends.isdisjoint(result.changed_files)
            else FindingValidity.HOLDS
        )
        if self.path not in result.changed_files:
            return otherwise
        text = result.report.files.get(self.path)
        newer = [
            capture
            for capture in self.captures
            if capture.generation > result.generation and capture.report.files[self.path] != text
        ]
        if not newer:
            return otherwise
        if isinstance(result, CaptureResult):
            function = self._function_then(finding, result) if finding.edited else None
            for capture_result in newer:
                functions = {
                    frame.function
                    for frame in capture_result.report.frames
                    if frame.location.path == self.path
                }
                if self._covers(capture_result, finding.place.span.line) or function in functions:
                    return FindingValidity.REPLACED
        return FindingValidity.DOUBTFUL

    def _function_then(self, finding: TrackedFinding, result: CaptureResult) -> str | None:
        """Name the frame that a finding was in: an edit of its line may have moved it out of the function."""
        line = finding.finding.span.line
        frames = [
            (frame.location.line, frame.function)
            for frame in result.report.frames
            if frame.location.path == self.path and frame.location.line <= line
        ]
        return max(frames)[1] if frames else None

    def _covers(self, result: CaptureResult, line: int) -> bool:
        """Whether a frame of `result` is the innermost function around a line."""
        starts = (
            result.places.now(span(frame.location)).line
            for frame in result.report.frames
            if frame.location.path == self.path
        )
        start = max((start for start in starts if start <= line), default=None)
        if start is None:
            return False
        depth = _depth(self.line(start) or "")
        if depth is None:
            return False
        for number in range(start + 1, line + 1):
            text = self.line(number) or ""
            here = _depth(text)
            if here is not None and here <= depth and not text.lstrip().startswith(_CLOSING):
                return False
        return True


def _depth(text: str) -> int | None:
    """Return the indentation of a line; None for an empty line or a comment."""
    code = text.lstrip()
    return None if not code or code.startswith("#") else len(text) - len(code)
