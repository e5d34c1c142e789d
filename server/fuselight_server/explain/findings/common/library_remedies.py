"""What a library offers against recompilations that its own code causes.

Invariant: a remedy is an option of the library or of torch that its documentation names. It is chosen by the guarded
value, and by where the guard was created or the function is defined.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from fuselight.shared.codec import read_table
from fuselight.shared.report import GuardCause, GuardFailure, Location


@dataclass(frozen=True)
class _Remedy:
    """What to do about one kind of value of one library."""

    package: str
    """A folder of the path, or two: `transformers`, `torch/optim`."""
    value: str
    """A pattern in the guarded value. That of a cache leaves out `is_initialized`: the first call initializes any."""
    causes: tuple[GuardCause, ...]
    words: tuple[str, ...]
    is_of_scheduler: bool = False
    """Whether it is an option of a scheduler: not for a value that the program's own code assigns."""


_REMEDIES = read_table(tuple[_Remedy, ...], __file__)
_STATE = re.compile(r"\bself\.state\b")
_STATE_CAUSES = frozenset(
    {
        GuardCause.LENGTH,
        GuardCause.KEYS,
        GuardCause.NONE,
        GuardCause.TYPE,
        GuardCause.MISSING,
        GuardCause.VALUE,
        GuardCause.OTHER,
    }
)
_NEW_STATE = (
    "Expect one extra compile: the first step creates the optimizer's state, which did not exist at the first compile, "
    "and later steps find it"
)


def is_new_state(failure: GuardFailure, function: Location) -> bool:
    """Whether the state of an optimizer did not exist at the compile: its first step creates it.

    A log has no objects: there, only the state that torch's own optimizers read is known.
    """
    if failure.is_new_state:
        return True
    names = f"{failure.source} {failure.difference}"
    is_absent = failure.was in {"0", "None", "{}"} or " was empty" in failure.difference
    is_state = failure.cause in _STATE_CAUSES and _STATE.search(names) is not None
    paths = (function.path, *(place.path for place in failure.born))
    return is_state and is_absent and any(_is_within(path, "torch/optim") for path in paths)


def library_remedy(
    failure: GuardFailure, function: Location, *, is_assigned: bool = False
) -> tuple[str, ...]:
    """The remedy of the library in which the guard was created or the function is defined; empty if none is known.

    `is_assigned`: the program's own code assigns the value, and no scheduler.
    """
    if is_new_state(failure, function):
        return (_NEW_STATE,)
    paths = (function.path, *(place.path for place in failure.born))
    names = " ".join((failure.source, failure.difference, *(size.name for size in failure.sizes)))
    for remedy in _REMEDIES:
        if failure.cause not in remedy.causes or re.search(remedy.value, names) is None:
            continue
        if is_assigned and remedy.is_of_scheduler:
            continue
        if any(_is_within(path, remedy.package) for path in paths):
            return remedy.words
    return ()


def _is_within(path: str, package: str) -> bool:
    parts = f"/{PurePath(path).as_posix().lstrip('/')}"
    return f"/{package}/" in parts
