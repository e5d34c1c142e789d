"""Graph breaks in the code of torch or of a library: what they mean, and what the user can change.

Invariant: no advice changes the library's code. A break that is by design, and takes nothing from the user's graphs, is
information without advice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from fuselight.shared.codec import read_table
from fuselight.shared.report import Break, Location
from fuselight_server.explain.findings.breaks.branch_advice import BRANCH_IDS


@dataclass(frozen=True)
class LibraryBreak:
    """What is known of a break in a library."""

    title: str
    """Empty where the title of the break's id fits."""
    text: str = ""
    """In the place of torch's explanation; empty if that holds."""
    hints: tuple[str, ...] = ()
    is_information: bool = False


@dataclass(frozen=True)
class _Known:
    """A break that is recognized by the file that broke or that torch names, and by a name."""

    path: str
    """The end of the path."""
    name: str
    """A pattern in the function that broke or in torch's explanation."""
    what: LibraryBreak


@dataclass(frozen=True)
class _LibraryTexts:
    """Of breaks in libraries."""

    known: tuple[_Known, ...]
    ddp_of_nothing: LibraryBreak
    """For code of DistributedDataParallel in whose module nothing is compiled."""
    calls: dict[str, tuple[str, ...]]
    """By the file of the branch: what to call instead."""


_TEXTS = read_table(_LibraryTexts, __file__)
_OF_DDP = next(known.what for known in _TEXTS.known if known.path == "torch/_compile.py")
_OUTSIDE = (
    (
        "Make this call outside the compiled code and pass in its result: the code that breaks the graph is a "
        "library's"
    ),
)
_AFTER = (
    (
        "Make this call outside the compiled code, with values that the compiled code returns: the code that breaks "
        "the graph is a library's"
    ),
)
_OUTSIDE_OF_NO_FILE = (
    (
        "Make this call outside the compiled code and pass in its result: the code that breaks the graph has no file, "
        "as the `__init__` that a dataclass gets"
    ),
)
_LOGGING = "/logging/__init__.py"
_METHODS = frozenset({"critical", "debug", "error", "exception", "fatal", "info", "log", "warn", "warning"})
"""Methods of a logger."""


def library_break(
    graph_break: Break, broke: Location | None, *, has_graphs: bool = True
) -> LibraryBreak | None:
    """What is known of a break of a library; None where it needs the advice for any break in a library.

    `broke` is None where torch calls the library's function itself, as the bound method of `torch.compile(opt.step)`.
    `has_graphs`: whether anything was compiled in the run.
    """
    paths = [place.path for place in graph_break.stack]
    texts = f"{broke.function if broke else None} {graph_break.explanation} {graph_break.context}"
    for known in _TEXTS.known:
        if not _names(known.path, paths, texts):
            continue
        if re.search(known.name, texts) is not None:
            return _TEXTS.ddp_of_nothing if known.what == _OF_DDP and not has_graphs else known.what
    return None


def _names(path: str, paths: list[str], texts: str) -> bool:
    return any(_posix(text).endswith(path) for text in paths) or path in texts.replace("\\", "/")


def outside_hints(gb_id: str | None, broke: Location, *, is_statement: bool = False) -> tuple[str, ...]:
    """What to do about a break in a library that nothing more is known of.

    `is_statement`: nothing uses the result of the user's call, as of a message.
    """
    if gb_id in BRANCH_IDS:
        return instead_of_branch(broke)
    if _posix(broke.path).endswith(_LOGGING):
        return _log_outside(broke.function or "")
    return _AFTER if is_statement else _outside(broke)


def _log_outside(method: str) -> tuple[str, ...]:
    """What to do about a message of a logger: it has no result, and torch can leave it out."""
    called = method.rpartition(".")[2]
    name = f"logging.Logger.{called}" if called in _METHODS else "the logger's method"
    return (
        "Log outside the compiled code, with values that the compiled code returns",
        (
            f"Or add {name} to torch._dynamo.config.ignore_logging_functions before the first call, with torch 2.11 or "
            "newer: compiled code then leaves the message out"
        ),
    )


def instead_of_branch(broke: Location) -> tuple[str, ...]:
    """What to call in the place of a library's function that branches on data."""
    path = _posix(broke.path)
    return next((hints for folder, hints in _TEXTS.calls.items() if folder in path), _outside(broke))


def is_without_file(path: str) -> bool:
    """Whether code was made from a text, as by `exec` or at a prompt: `<string>`, `<ipython-input-3-...>`."""
    return path.startswith("<") and path.endswith(">")


def _outside(broke: Location) -> tuple[str, ...]:
    return _OUTSIDE_OF_NO_FILE if is_without_file(broke.path) else _OUTSIDE


def _posix(path: str) -> str:
    return PurePath(path).as_posix()
