"""A baseline of numbers: what named checks have found, so that a later one is compared with it.

Invariant: an entry is worse if one of its numbers is, or if nothing is compiled any more. Findings tell what is new,
and never decide. The file is replaced as a whole, and processes that write it at the same time lose no entry.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.folder_lock import locked_folder
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import leaves_project, linked, read_regular, write_whole
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.fingerprints import fingerprint_of
from fuselight_server.commands.baseline import fingerprint
from fuselight_server.commands.trace_conditions import TraceConditions, conditions_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fuselight_server.base.finding import Finding
    from fuselight_server.commands.compile_checks import CompileCheck

NAME = "fuselight-tests.json"
"""Its name where none is given: not that of a baseline of findings, which `fuselight check` writes."""
_SCHEMA = 1
_MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True)
class CountEntry:
    """What one check has found."""

    graphs: int
    breaks: int
    recompiles: int
    torch: str = ""
    """Its release, as `2.13`: numbers may differ between releases."""
    settings: dict[str, str] | None = None
    """Settings that differ from their defaults, on which numbers may depend; None if they are unknown."""
    findings: dict[str, int] = field(default_factory=dict)
    """Fingerprints of its findings, and how often each occurs."""

    @property
    def conditions(self) -> TraceConditions:
        """What the numbers depend on besides the code."""
        return TraceConditions(self.torch, self.settings)


class CountChange(Enum):
    """A check, compared with its entry."""

    NEW = "new"
    SAME = "same"
    BETTER = "better"
    WORSE = "worse"


@dataclass(frozen=True)
class CountComparison:
    """How a check compares with its entry."""

    change: CountChange
    worse: tuple[str, ...] = ()
    """The names of the numbers that are worse."""
    new_findings: tuple[Finding, ...] = ()


def entry_of(check: CompileCheck, folder: Path) -> CountEntry:
    """The entry for a check, in a baseline in `folder`."""
    keys = Counter(_fingerprint(finding, check, folder) for finding in check.findings)
    counts = check.counts
    conditions = conditions_of(check.report)
    return CountEntry(
        counts.graphs,
        counts.breaks,
        counts.recompilations,
        conditions.torch,
        conditions.settings,
        dict(sorted(keys.items())),
    )


def compare(check: CompileCheck, known: CountEntry | None, folder: Path) -> CountComparison:
    """Compare a check with its entry in a baseline in `folder`."""
    if known is None:
        return CountComparison(CountChange.NEW)
    entry = entry_of(check, folder)
    worse = tuple(_worse(entry, known))
    if worse:
        return CountComparison(CountChange.WORSE, worse, tuple(_new(check, known, folder)))
    numbers = ("graphs", "breaks", "recompiles")
    is_equal = all(getattr(entry, name) == getattr(known, name) for name in numbers)
    return CountComparison(CountChange.SAME if is_equal else CountChange.BETTER)


def _worse(entry: CountEntry, known: CountEntry) -> list[str]:
    nothing = ["graphs"] if known.graphs and not entry.graphs else []
    names = ("graphs", "breaks", "recompiles")
    return nothing + [name for name in names if getattr(entry, name) > getattr(known, name)]


def _new(check: CompileCheck, known: CountEntry, folder: Path) -> list[Finding]:
    accepted = Counter(known.findings)
    rows = []
    for finding in check.findings:
        key = _fingerprint(finding, check, folder)
        if accepted[key] > 0:
            accepted[key] -= 1
        else:
            rows.append(finding)
    return rows


def _fingerprint(finding: Finding, check: CompileCheck, folder: Path) -> str:
    try:
        return fingerprint(finding, check.sources, folder)
    except ValueError:  # its file is on another drive than the baseline
        line = check.sources.line(finding.span.path, finding.span.line) or ""
        name = Path(finding.span.path).name
        return fingerprint_of(name, finding.code, finding.target, line, finding.subject or finding.title)


def read(path: Path) -> dict[str, CountEntry]:
    """The entries of a baseline by the name of the check; none if there is no file. Raises CommandError."""
    try:
        data = parse_json(read_regular(path, _MAX_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise CommandError(
            f"the baseline {path} cannot be read: {error}. Restore it (a merge may have left marks in it), or "
            "remove it and run the tests again."
        ) from error
    checks = data.get("checks") if isinstance(data, dict) and data.get("schema") == _SCHEMA else None
    try:
        return {str(name): decode(CountEntry, entry) for name, entry in _items(checks)}
    except DecodeError as error:
        raise CommandError(
            f"{path} is not a baseline of tests that this version can read. "
            "Remove it and run the tests again, or name another file."
        ) from error


def _items(checks: Any) -> list[tuple[Any, Any]]:
    if not isinstance(checks, dict):
        raise DecodeError("no checks")
    return list(checks.items())


def write(path: Path, changed: Mapping[str, CountEntry], removed: Collection[str] = ()) -> None:
    """Replace and remove entries of a baseline, and keep the others. Raises CommandError and OSError.

    The project's settings name the file, so a link out of the project is not written through.
    """
    if leaves_project(path):
        raise linked(path)
    place = Path(os.path.realpath(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    with locked_folder(str(place.parent)):
        entries = {**read(place), **changed}
        kept = {name: encode(entry) for name, entry in sorted(entries.items()) if name not in removed}
        data = {"schema": _SCHEMA, "checks": kept}
        write_whole(place, f"{json.dumps(data, indent=2)}\n".encode(), mode=0o644)
