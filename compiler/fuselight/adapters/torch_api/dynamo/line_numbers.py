# ruff: noqa: SLF001 - private names are this package's business
"""Corrects the source positions that torch records while it traces.

Invariant: only the line tables of functions that Dynamo generates and the positions of frame summaries change, never
what is traced or run. A torch whose positions are right is not changed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.bytecode_transformation
import torch._dynamo.symbolic_convert
import torch._guards

_ENTRY = 8
"""Code units that one entry of a line table covers at most (CPython's Objects/locations.md)."""


Replace = Callable[[str, object, str, Callable[..., Any]], None]
"""Has a call of an owner's attribute be `function(real, ...)`, for a feature that is lost where a torch lacks it."""


def fix_places(replace: Replace) -> None:
    """Correct the lines of Dynamo's resume functions, and add the end line to each frame summary."""
    if sys.version_info < (3, 11):
        return  # code has no positions, and the older line table is written right
    writers = torch._dynamo.bytecode_transformation
    translator = torch._dynamo.symbolic_convert.InstructionTranslatorBase
    replace("lines of resumed code", writers, "linetable_311_writer", _in_entries)
    replace("ends of places", translator, "frame_summary", _whole_summary)
    replace("ends of places", torch._guards.TracingContext, "_populate_loc_in_frame_summary", _whole_current)


def _in_entries(real: Callable[..., Any], first_lineno: int) -> tuple[list[int], Callable[[Any, int], None]]:
    """Hand an instruction of several entries over one entry at a time.

    torch repeats the step to an instruction's line in each of its entries. A LOAD_METHOD has two on Python 3.11, a
    LOAD_ATTR has two on 3.12: each line number after a chain of calls, one per line, was too large.
    """
    table, update = real(first_lineno)

    def update_by_entry(positions: Any, size: int) -> None:
        while size > _ENTRY:
            update(positions, _ENTRY)  # the next one is on the same line: its step is 0
            size -= _ENTRY
        update(positions, size)

    return table, update_by_entry


def _whole_summary(real: Callable[..., Any], self: Any) -> Any:
    return _whole(real(self), getattr(self.current_instruction, "positions", None))


def _whole_current(real: Callable[..., Any], self: Any) -> Any:
    return _whole(real(self), getattr(self, "loc_in_frame_positions", None))


def _whole(summary: Any, at: Any) -> Any:
    """The summary with all of an instruction's position: torch leaves out its end line.

    An instruction without a line of its own has no columns on the line before, which is what torch names then.
    """
    if at is None:
        return summary
    here = at.lineno == summary.lineno
    summary.end_lineno = at.end_lineno if here else None
    summary.colno = at.col_offset if here else None
    summary.end_colno = at.end_col_offset if here else None
    return summary
