# ruff: noqa: SLF001 - private names are this package's business
"""Caches work that Dynamo repeats: the text of a stack for each node, the function names of a file in each process.

Invariant: a cached result equals, character for character, the result that Dynamo would compute.
"""

from __future__ import annotations

import contextlib
import operator
import sys
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo

from fuselight.adapters.torch_api.dynamo.line_numbers import Replace

_KEY = operator.attrgetter("filename", "lineno", "end_lineno", "colno", "end_colno", "name", "line")
_KEPT = 16384
"""Texts of frames that are kept; a 12-layer GPT-2 has 450, and asks for 6,000."""


def cache_stack_texts(replace: Replace) -> None:
    """Format a frame of a stack once. Each node of a graph keeps its stack as text, and layers repeat each other."""
    known: dict[tuple[Any, ...], str] = {}

    def format_frame(real: Callable[..., Any], self: Any, frame: Any, **options: Any) -> Any:
        if frame.locals or options:
            return real(self, frame, **options)
        key = _KEY(frame)
        text = known.get(key)
        if text is None:
            if len(known) >= _KEPT:
                known.clear()
            text = known[key] = real(self, frame)
        return text

    if sys.version_info >= (3, 11):  # before, no columns are marked: formatting costs little
        replace("texts of stacks", traceback.StackSummary, "format_frame_summary", format_frame)


def named_files() -> tuple[str, ...]:
    """The files whose functions Dynamo has listed, by line, in this process: it reads each one whole for that."""
    cache = getattr(_names(), "cache", None)
    return tuple(cache) if isinstance(cache, dict) else ()


def name_functions(path: str) -> None:
    """Have Dynamo list the functions of a file, so that the processes forked from this one have the list."""
    get = getattr(_names(), "get_funcname", None)
    if get is not None:
        # torch expects a file that is there and well formed; since a run read it, it may have been replaced
        with contextlib.suppress(SyntaxError, ValueError):
            get(path, 1)


def _names() -> Any:
    return getattr(torch._dynamo, "funcname_cache", None)
