"""A place in a source file: what every other part of a report points with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """A place in a source file, in a frame of a stack where `function` is set."""

    path: str
    line: int
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None
    function: str | None = None
    """The function's name without resume-function decoration: `forward`, never
    `torch_dynamo_resume_in_forward_at_23`.
    """


Stack = tuple[Location, ...]
"""Outermost frame first."""
