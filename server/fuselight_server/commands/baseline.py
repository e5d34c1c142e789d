"""A baseline: the findings that are known and accepted, so that a check fails on new ones only.

A finding is known by its content: path, code, target, the text of its line, and its subject, which has no values.
Invariant: moving a line, or editing another one, changes no fingerprint. Equal findings are counted. A cause with
several places is accepted with each of them, and is known while one of them is.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_data import NestingError, parse_json
from fuselight.shared.foreign_files import read_regular, write_whole
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.fingerprints import fingerprint_of
from fuselight_server.commands.trace_conditions import TraceConditions, conditions_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight.shared.report import Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.commands.sources import SourceFiles

_SCHEMA = 3


@dataclass(frozen=True)
class Baseline:
    """Accepted findings: how often each fingerprint is accepted, and the conditions of the runs that had them."""

    counts: Counter[str]
    conditions: dict[str, TraceConditions] = field(default_factory=dict)
    """By target, as `net.py::Net`: each may have settings of its own."""
    has_conditions: bool = True
    """Whether `conditions` could be read."""

    def note(self, path: Path) -> str:
        """What to know of a baseline that is damaged; empty for a whole one."""
        if self.has_conditions:
            return ""
        return (
            f"{path} is damaged: its findings count, but the release and the settings of torch in it cannot be read. "
            f"Write it again with --write-baseline {path}."
        )


def conditions_by_target(reports: Iterable[Report], path: Path) -> dict[str, TraceConditions]:
    """The conditions of targets, as a baseline at `path` names them."""
    return {
        f"{_relative(report.target.path, path.absolute().parent)}::{report.target.name}": conditions_of(
            report
        )
        for report in reports
    }


def _relative(path: str, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def fingerprint(finding: Finding, sources: SourceFiles, folder: Path) -> str:
    """What identifies a finding: 32 hex digits. Paths are taken relative to the baseline's `folder`."""
    line = sources.line(finding.span.path, finding.span.line) or ""
    path = _relative(finding.span.path, folder)
    return fingerprint_of(path, finding.code, finding.target, line, finding.subject or finding.title)


def write(
    path: Path,
    findings: Iterable[Finding],
    sources: SourceFiles,
    reports: Iterable[Report] = (),
) -> None:
    """Accept all of `findings`, which the runs of `reports` had. Raises OSError."""
    folder = path.absolute().parent
    counts = Counter(
        fingerprint(place, sources, folder) for finding in findings for place in (finding, *finding.also_at)
    )
    conditions = encode(conditions_by_target(reports, path))
    data = {"schema": _SCHEMA, "conditions": conditions, "findings": dict(sorted(counts.items()))}
    write_whole(os.path.realpath(path), f"{json.dumps(data, indent=2)}\n".encode(), mode=0o644)


def check_writable(path: Path) -> None:
    """Raise CommandError where no baseline can be written: said before the work, not after it."""
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        raise CommandError(
            f"the baseline {path} cannot be written: it is not a regular file. Name another one."
        )
    if not place.parent.is_dir() or not os.access(place.parent, os.W_OK):
        raise CommandError(
            f"the baseline {path} cannot be written: {place.parent} is no folder that you can write to. "
            "Name another one."
        )


def new_findings(
    path: Path, findings: Iterable[Finding], sources: SourceFiles, baseline: Baseline | None = None
) -> list[Finding]:
    """The findings that the baseline does not know; `baseline` where it has been read. Raises CommandError."""
    known = Counter((read(path) if baseline is None else baseline).counts)
    folder = path.absolute().parent
    out = []
    for finding in findings:
        keys = [fingerprint(place, sources, folder) for place in (finding, *finding.also_at)]
        accepted = Counter(keys) & known
        known -= accepted
        if not accepted:
            out.append(finding)
    return out


def read(path: Path) -> Baseline:
    """Read a baseline. Raises CommandError."""
    try:
        data = parse_json(read_regular(path))
    except FileNotFoundError:
        raise CommandError(f"there is no baseline {path}. Write one with --write-baseline {path}.") from None
    except NestingError:
        raise CommandError(
            f"the baseline {path} cannot be read: it is nested too deeply. Write it again with --write-baseline {path}."
        ) from None
    except (OSError, ValueError) as error:
        raise CommandError(f"the baseline {path} cannot be read: {error}") from error
    counts = data.get("findings") if isinstance(data, dict) and data.get("schema") == _SCHEMA else None
    if not isinstance(counts, dict) or not all(isinstance(count, int) for count in counts.values()):
        raise CommandError(
            f"{path} is not a baseline that this version can read. Write it again with --write-baseline {path}."
        )
    try:
        return Baseline(Counter(counts), decode(dict[str, TraceConditions], data.get("conditions", {})))
    except DecodeError:
        return Baseline(Counter(counts), has_conditions=False)
