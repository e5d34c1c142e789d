"""A location in a source file, used by every other part of a report, and the rule for the user's own files."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

_INSTALLED = re.compile(r"[\\/](?:(?:site|dist)-packages|lib(?:64)?[\\/]python\d[\d.]*)[\\/]")
"""Folders of installed packages and of the standard library: a workspace often contains its own environment."""
_STANDARD_LIBRARY = re.compile(
    r"[\\/](?:lib(?:64)?[\\/]python\d[\d.]*|Python\d+[\\/][Ll]ib)[\\/](?!(?:site|dist)-packages[\\/])"
)

MAX_LINES = 10_000_000
"""Of a file: loops over lines end, whatever a stored report says."""
LineNumber = Annotated[int, range(MAX_LINES + 1)]
"""1-based; 0 where a file as a whole is named."""


@dataclass(frozen=True)
class Location:
    """A location in a source file; a stack frame if `function` is set."""

    path: str
    line: LineNumber
    column: int | None = None
    end_line: LineNumber | None = None
    end_column: int | None = None
    function: str | None = None
    """The function's name without resume-function decoration: `forward`, never
    `torch_dynamo_resume_in_forward_at_23`.
    """


Stack = tuple[Location, ...]
"""Outermost frame first."""


def is_user_file(path: str, roots: Sequence[str]) -> bool:
    """Whether `path` is the user's code: inside one of `roots`, and not in a Python environment inside that root.

    Both processes apply this one rule. Where a root is itself inside `site-packages`, its files are the user's.
    """
    return _is_user_file(path, tuple(roots))


def is_installed(folder: str) -> bool:
    """Whether a folder is inside of an environment's packages or the standard library."""
    return _INSTALLED.search(f"{folder}/") is not None


def is_pythons_own(path: str) -> bool:
    """Whether `path` is a file of the standard library, of whichever Python."""
    return path.startswith("<frozen") or _STANDARD_LIBRARY.search(path) is not None


def innermost_user_frame(stack: Stack, roots: Sequence[str]) -> Location | None:
    """The innermost frame of a user's file."""
    return next((frame for frame in reversed(stack) if is_user_file(frame.path, roots)), None)


def file_name(path: str) -> str:
    """The last part of a path of whichever system."""
    return path.replace("\\", "/").rpartition("/")[2]


@functools.lru_cache(maxsize=8192)
def _is_user_file(path: str, roots: tuple[str, ...]) -> bool:
    return any(_is_inside(path, root.rstrip("/\\")) for root in roots)


def _is_inside(path: str, root: str) -> bool:
    separated = path[len(root) : len(root) + 1] in {"/", os.sep}
    return separated and path.startswith(root) and _INSTALLED.search(path, len(root)) is None
