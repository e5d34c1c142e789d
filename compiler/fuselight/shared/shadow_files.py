"""How `fuselight run --accuracy` asks processes to compare their compiled calls, and what they leave.

Invariant: each process has a file of its own, which appears complete or not at all.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import open_regular, write_whole
from fuselight.shared.report import Shadow

FOLDER = "FUSELIGHT_ACCURACY"
"""Names the folder for the results of processes; a process without it compares nothing."""
_SHARE = "FUSELIGHT_ACCURACY_SHARE"
_ROOTS = "FUSELIGHT_ACCURACY_ROOTS"
_NAME = "accuracy-"
_MAX_BYTES = 64 << 20
DEFAULT_SHARE = 0.2


@dataclass(frozen=True)
class ShadowPlan:
    """What a process is asked for."""

    folder: str
    share: float = DEFAULT_SHARE
    """The part of the time that comparisons may take."""
    roots: tuple[str, ...] = ()
    """Folders whose files are the user's."""

    @property
    def variables(self) -> dict[str, str]:
        """The variables that ask a process, and those that it starts."""
        return {FOLDER: self.folder, _SHARE: repr(self.share), _ROOTS: os.pathsep.join(self.roots)}


def asked_plan(variables: Mapping[str, str]) -> ShadowPlan | None:
    """What the variables of a process ask for; None if for nothing."""
    folder = variables.get(FOLDER)
    if not folder:
        return None
    try:
        share = float(variables.get(_SHARE, ""))
    except ValueError:
        share = DEFAULT_SHARE
    return ShadowPlan(folder, share, tuple(filter(None, variables.get(_ROOTS, "").split(os.pathsep))))


def write_shadow(folder: str, shadow: Shadow) -> None:
    """Replace the file of a process. Raises OSError."""
    data = json.dumps(encode(shadow), allow_nan=True).encode()
    write_whole(os.path.join(folder, f"{_NAME}{shadow.process}.json"), data)


def read_shadows(folder: str) -> tuple[Shadow, ...]:
    """What the processes of a run have left, by rank; damaged files are left out."""
    shadows = []
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), f"{_NAME}*.json"))):
        with contextlib.suppress(OSError, ValueError, TypeError, DecodeError, RecursionError):
            with open_regular(path) as file:
                data = parse_json(file.read(_MAX_BYTES))
            shadows.append(decode(Shadow, data))
    return _by_rank(shadows)


def _by_rank(shadows: Sequence[Shadow]) -> tuple[Shadow, ...]:
    return tuple(sorted(shadows, key=lambda shadow: (shadow.rank is None, shadow.rank or 0, shadow.process)))
