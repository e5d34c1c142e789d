"""Results of searches in `fuselight-tuned.json`, which a program replays.

Invariant: a file that cannot be read or written stays as it is, and the reason is returned with the next step: a result
is never lost because of it.
"""

from __future__ import annotations

import errno
import os
import posixpath
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from fuselight.shared import tuned_file
from fuselight.shared.foreign_files import project_root
from fuselight.shared.report import TunedResult
from fuselight_server.explain.searches.measurements import DEFAULT
from fuselight_server.explain.searches.words import gain_words

_NAME_ANOTHER = "write the result to another file"


@dataclass(frozen=True)
class WrittenDecision:
    """What became of a result that was to be written."""

    path: str
    """Of the tuned file, absolute."""
    problem: str = ""
    """Why it is not in the file, and what to do; empty if it is."""
    keeps_earlier: bool = False
    """Whether that is intended: the file has a result of an earlier search that says more."""


def tuned_path(target_path: str, output: str | None = None) -> Path:
    """The tuned file for a target's file: the named one, also by its folder, else that of the project's root."""
    if output:
        named = Path(os.path.abspath(output))  # noqa: PTH100 - resolve() would rename what the user named
        is_folder = named.is_dir() or output.endswith(("/", os.sep))
        return named / tuned_file.NAME if is_folder else named
    return project_root(Path(target_path)) / tuned_file.NAME


def located(result: TunedResult, target_path: str, folder: Path) -> TunedResult:
    """The result with the target's file below the folder of the tuned file."""
    try:
        file = os.path.relpath(os.path.realpath(target_path), os.path.realpath(folder))
    except ValueError:  # another drive
        file = target_path
    return replace(result, file=posixpath.join(*Path(file).parts))


def unwritable(path: Path) -> str:
    """Why no result can be written to a tuned file, with the next step; empty if one can. Leaves nothing there."""
    try:
        tuned_file.read(path)
        with tempfile.TemporaryFile(prefix=f".{tuned_file.NAME}-", dir=path.parent):
            pass
    except tuned_file.TunedFileError as error:
        return str(error)
    except OSError as error:
        return _not_written(path, error)
    return ""


def _not_written(path: Path, error: OSError) -> str:
    if not path.parent.is_dir():
        return (
            f"`{path}` cannot be written: there is no folder `{path.parent}`. Create it, or {_NAME_ANOTHER}"
        )
    step = "free space" if error.errno in (errno.ENOSPC, errno.EDQUOT) else "make the folder writable"
    return f"`{path}` cannot be written: {error.strerror or error}. Tune again after you {step}, or {_NAME_ANOTHER}"


def write_decision(
    result: TunedResult, target_path: str, output: str | None = None, *, is_tentative: bool = False
) -> WrittenDecision:
    """Add a result to the tuned file, in place of an earlier one for the same key.

    One that `is_tentative` (measurements.is_tentative) does not replace what an earlier search has confirmed.
    """
    path = tuned_path(target_path, output)
    tuned_result = located(result, target_path, path.parent)
    try:
        earlier = _confirmed(path, tuned_result) if is_tentative else None
        if earlier is not None:
            text = f"{earlier.configuration}, {gain_words(earlier)}"
            why = f"`{path}` keeps what an earlier search has confirmed: {text}. This search ended too early to compare"
            return WrittenDecision(str(path), f"{why}: tune again with more time", keeps_earlier=True)
        tuned_file.keep(path, [tuned_result])
    except tuned_file.TunedFileError as error:
        return WrittenDecision(str(path), f"the result was not written: {error}")
    except OSError as error:
        return WrittenDecision(str(path), f"the result was not written: {_not_written(path, error)}")
    return WrittenDecision(str(path))


def _confirmed(path: Path, result: TunedResult) -> TunedResult | None:
    """The result of an earlier search for the same key, if that was confirmed to be faster than `default`."""
    file = tuned_file.read(path)
    same = (
        (
            tuned_result
            for tuned_result in file.results
            if tuned_file.key_of(tuned_result) == tuned_file.key_of(result)
        )
        if file
        else ()
    )
    return next(
        (
            tuned_result
            for tuned_result in same
            if tuned_result.configuration != DEFAULT and tuned_result.gain_low > 1
        ),
        None,
    )


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
