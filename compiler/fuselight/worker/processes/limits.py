"""Limits of the system that user code may have lowered, or come to: open files, and the size of files.

Invariant: an answer that a limit of the user's code keeps from being written is not taken for a fault of ours.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import sys
from dataclasses import dataclass, field
from typing import Any

from fuselight.shared.protocol import Target
from fuselight.shared.report import Culprit, Failure, Location

_resource: Any = importlib.import_module("resource") if sys.platform != "win32" else None
_NAMES = ("RLIMIT_NOFILE", "RLIMIT_FSIZE", "RLIMIT_AS", "RLIMIT_DATA")
_WORDS = {
    errno.EMFILE: ("RLIMIT_NOFILE", "opened as many files as its limit allows"),
    errno.EFBIG: ("RLIMIT_FSIZE", "limits the size of files"),
}
_MAX_DESCRIPTORS = 1 << 16
_set_limit: Any = getattr(_resource, "setrlimit", None)
_get_limit: Any = getattr(_resource, "getrlimit", None)
_close, _close_range, _suppress, _error = os.close, os.closerange, contextlib.suppress, OSError


def _read() -> dict[str, tuple[int, int]]:
    if _get_limit is None:
        return {}
    return {name: _get_limit(getattr(_resource, name)) for name in _NAMES if hasattr(_resource, name)}


@dataclass(frozen=True)
class SystemLimits:
    """The limits as they were before any user code ran."""

    before: dict[str, tuple[int, int]] = field(default_factory=_read)

    def lowered(self) -> dict[str, int]:
        """The limits that are lower now, by name."""
        now = _read()
        return {
            name: now[name][0] for name, (soft, _) in self.before.items() if _is_lower(now[name][0], soft)
        }

    def restore(self) -> None:
        """Undo what user code has lowered, as far as this process may."""
        for name in self.lowered():
            number = getattr(_resource, name)
            for limits in (self.before[name], (_get_limit(number)[1], _get_limit(number)[1])):
                with _suppress(_error, ValueError):
                    _set_limit(number, limits)
                    break


def _is_lower(now: int, before: int) -> bool:
    unlimited = _resource.RLIM_INFINITY
    return now != unlimited and (before == unlimited or now < before)


def make_room(kept: int) -> None:
    """Close what user code has left open if no further file can be opened; `kept` is a pipe of ours."""
    try:
        _close(os.open(os.devnull, os.O_RDONLY))
    except OSError as full:
        if full.errno != errno.EMFILE:
            return
        with _suppress(_error):
            _close(0)
        _close_range(3, max(kept, 3))
        _close_range(max(kept + 1, 3), _MAX_DESCRIPTORS)


def failure_of(error: BaseException, target: Target, limits: SystemLimits) -> Failure | None:
    """Describe an answer that could not be written because of a limit; None for any other error."""
    words = _WORDS.get(getattr(error, "errno", None) or 0) if isinstance(error, OSError) else None
    if words is None:
        return None
    name, what = words
    lowered = limits.lowered().get(name)
    if lowered is None and name == "RLIMIT_FSIZE":
        return Failure(
            Culprit.ENVIRONMENT,
            "limit",
            f"the answer of the run is larger than a file may be here ({name})",
            f"raise {name}, as with `ulimit`, in the shell or service that starts Fuselight",
        )
    count = f" to {lowered:,}" if lowered is not None else ""
    return Failure(
        Culprit.USER,
        "limit",
        f"the code {what}{count} ({name}), so that the answer of the run could not be written",
        "set the limit where the program is started, not in the code that is checked, and close files after use",
        stack=(Location(target.path, target.line, function=target.name),),
    )
