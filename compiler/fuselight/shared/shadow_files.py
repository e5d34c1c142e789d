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
from pathlib import PurePath

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import open_regular, write_whole
from fuselight.shared.report import Shadow

FOLDER = "FUSELIGHT_ACCURACY"
"""Names the folder for the results of processes; a process without it compares nothing."""
_SHARE = "FUSELIGHT_ACCURACY_SHARE"
_ROOTS = "FUSELIGHT_ACCURACY_ROOTS"
_RECORDS = "FUSELIGHT_ACCURACY_RECORD"
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
    records: bool = False
    """Whether what calls compute is recorded, for a comparison with another run."""

    @property
    def variables(self) -> dict[str, str]:
        """The variables that ask a process, and those that it starts."""
        records = {_RECORDS: "1"} if self.records else {}
        return {
            FOLDER: self.folder,
            _SHARE: repr(self.share),
            _ROOTS: os.pathsep.join(self.roots),
            **records,
        }


def asked_plan(variables: Mapping[str, str]) -> ShadowPlan | None:
    """What the variables of a process ask for; None if for nothing."""
    folder = variables.get(FOLDER)
    if not folder:
        return None
    try:
        share = float(variables.get(_SHARE, ""))
    except ValueError:
        share = DEFAULT_SHARE
    roots = tuple(filter(None, variables.get(_ROOTS, "").split(os.pathsep)))
    return ShadowPlan(folder, share, roots, records=bool(variables.get(_RECORDS)))


def relative_to(path: str, roots: Sequence[str]) -> str:
    """A path as it is in the innermost of the folders, with `/`; its name alone outside of them."""
    folders = {str(folder) for folder in PurePath(path).parents}
    inside = [root for root in roots if os.path.normpath(root) in folders]
    if not inside:
        return os.path.basename(path)
    return os.path.relpath(path, max(inside, key=len)).replace(os.sep, "/")


_KEY = "fuselight_values"
"""Tells a recording from other JSON; its value is the version."""


def write_recording(path: str, shadows: Sequence[Shadow]) -> None:
    """Write what the processes of a run have recorded. Raises OSError."""
    data = {_KEY: 1, "processes": [encode(shadow) for shadow in shadows]}
    write_whole(path, json.dumps(data, allow_nan=True).encode())


def is_recording(path: str) -> bool:
    """Whether a file is one of `write_recording`, by how it begins."""
    with contextlib.suppress(OSError), open_regular(path) as file:
        return file.read(len(_KEY) + 4).startswith(f'{{"{_KEY}"'.encode())
    return False


def read_recording(path: str) -> tuple[Shadow, ...]:
    """What `write_recording` has written. Raises OSError, and ValueError for a file that is damaged."""
    with open_regular(path) as file:
        data = parse_json(file.read(_MAX_BYTES))
    try:
        return _by_rank([decode(Shadow, each) for each in data["processes"]])
    except (TypeError, KeyError, DecodeError, RecursionError) as error:
        raise ValueError(f"it is not a complete recording: {error}") from None


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
