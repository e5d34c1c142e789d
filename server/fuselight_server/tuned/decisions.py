"""Results of searches in `fuselight-tuned.json`, which a program replays.

Invariant: a file that cannot be read or written stays as it is, and the reason is returned with the next step: a result
is never lost because of it.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight import tuned_file
from fuselight_server.store import project_root

if TYPE_CHECKING:
    from fuselight.report import TunedResult


@dataclass(frozen=True)
class WrittenDecision:
    """What became of a result that was to be written."""

    path: str
    """Of the tuned file, absolute."""
    problem: str = ""
    """Why it is not in the file, and what to do; empty if it is."""


def tuned_path(target_path: str, output: str | None = None) -> Path:
    """The tuned file for a target's file: the one that is named, else that of the project's root."""
    if output:
        return Path(os.path.abspath(output))  # noqa: PTH100 - resolve() would rename what the user named
    return project_root(Path(target_path)) / tuned_file.NAME


def located(result: TunedResult, target_path: str, folder: Path) -> TunedResult:
    """The result with the target's file below the folder of the tuned file."""
    try:
        file = os.path.relpath(os.path.realpath(target_path), os.path.realpath(folder))
    except ValueError:  # another drive
        file = target_path
    return replace(result, file=posixpath.join(*Path(file).parts))


def write_decision(result: TunedResult, target_path: str, output: str | None = None) -> WrittenDecision:
    """Add a result to the tuned file, in place of an earlier one for the same key."""
    path = tuned_path(target_path, output)
    try:
        tuned_file.keep(path, [located(result, target_path, path.parent)])
    except tuned_file.TunedFileError as error:
        return WrittenDecision(str(path), f"the result was not written: {error}")
    except OSError as error:
        why = error.strerror or str(error)
        step = "make the folder writable and tune again, or name another file with `--output FILE`"
        return WrittenDecision(str(path), f"the result was not written to `{path}`: {why}; {step}")
    return WrittenDecision(str(path))


def holding_file(result: TunedResult, target_path: str) -> WrittenDecision | None:
    """The project's tuned file if it has this result; None if it has another one, or cannot be read."""
    path = tuned_path(target_path)
    try:
        file = tuned_file.read(path)
    except tuned_file.TunedFileError:
        return None
    mine = located(result, target_path, path.parent)
    is_there = file is not None and mine in file.results
    return WrittenDecision(str(path)) if is_there else None
