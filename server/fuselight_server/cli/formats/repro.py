"""`fuselight repro` for people, as JSON, and as files (docs/repro.md).

Invariant: a file that exists is never overwritten.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fuselight.shared.codec import encode
from fuselight.shared.foreign_files import write_whole
from fuselight_server.base.formatting import format_count, format_target
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.json import problems_as_json
from fuselight_server.cli.formats.text_parts import print_problems
from fuselight_server.commands.repro import Fault, ReproOutcome
from fuselight_server.commands.sources import shown_path
from fuselight_server.execution.runs.planning import MAIN

_MODE = 0o644
_UNSAFE = re.compile(r"\W+")


def print_repro(outcome: ReproOutcome, written: dict[int, Path], terminal: Terminal) -> None:
    """Each fault with its program, or with why there is none."""
    for index, fault in enumerate(outcome.faults):
        where = f"{shown_path(fault.path)}: {format_target(fault.name or fault.target)}"
        if fault.confirmed is None:
            terminal.print(f"{where} - not reproduced: {fault.why_not}")
            continue
        size = format_count(fault.confirmed.line_count, "line")
        partial = "; the time ended before it was the smallest" if fault.is_partial else ""
        terminal.print(
            f"{where} - {fault.confirmed.title} ({size}, {format_count(fault.tried, 'program')} tried, "
            f"{fault.seconds:.0f} s{partial})"
        )
        if fault.change is not None:
            terminal.print(f"  {fault.change.words}")
            for row in fault.change.rows:
                terminal.print(f"    {row}")
        if index in written:
            terminal.print(f"  written: {written[index]} and {written[index].with_suffix('.md').name}")
        terminal.print()
        terminal.print(fault.confirmed.script)
    for report in outcome.check.reports:
        print_problems(report, terminal)
        if not outcome.faults and not report.failures:
            name = format_target(report.target.name)
            terminal.print(f"{shown_path(report.target.path)}: {name} - no fault of the compiler was seen")


def write_repro(outcome: ReproOutcome, folder: Path) -> dict[int, Path]:
    """Write programs and issues into a folder; returns the path of each program. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[int, Path] = {}
    for index, fault in enumerate(outcome.faults):
        if fault.confirmed is None:
            continue
        path = _free(folder, _UNSAFE.sub("_", fault.name or "repro").strip("_") or "repro")
        write_whole(path, fault.confirmed.script.encode(), mode=_MODE)
        write_whole(path.with_suffix(".md"), fault.issue.encode(), mode=_MODE)
        written[index] = path
    return written


def _free(folder: Path, name: str) -> Path:
    """A path of which neither the program nor the issue exists."""
    number, path = 1, folder / f"repro_{name}.py"
    while path.is_symlink() or path.exists() or path.with_suffix(".md").exists():
        number += 1
        path = folder / f"repro_{name}_{number}.py"
    return path


def repro_as_json(outcome: ReproOutcome) -> str:
    """The faults with their programs, and what could not be determined."""
    data = {
        "schema": 1,
        "faults": [_fault(fault) for fault in outcome.faults],
        "targets": [
            {
                "path": report.target.path,
                "name": report.target.name or MAIN,
                "torch": report.versions.torch,
                "failures": encode(report.failures),
            }
            for report in outcome.check.reports
        ],
        "problems": problems_as_json(outcome.check),
    }
    return json.dumps(data, indent=2)


def _fault(fault: Fault) -> dict[str, Any]:
    confirmed = fault.confirmed
    return {
        "path": fault.path,
        "target": fault.target or MAIN,
        "name": fault.name,
        "what": fault.what,
        "confirmed": confirmed is not None,
        "why_not": fault.why_not,
        "title": confirmed.title if confirmed else "",
        "script": confirmed.script if confirmed else "",
        "lines": confirmed.line_count if confirmed else 0,
        "issue": fault.issue,
        "backend": confirmed.program.backend if confirmed else "",
        "tried": fault.tried,
        "seconds": round(fault.seconds, 1),
        "partial": fault.is_partial,
        "releases": encode(fault.change),
    }
