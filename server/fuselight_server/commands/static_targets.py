"""What files compile, by their text alone: the targets that a check would run, and where their inputs would come from.

Invariant: nothing runs.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from fuselight.shared.report import Problem
from fuselight_server.base.formatting import format_count
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.sources import SourceFiles, shown_path
from fuselight_server.commands.targets import planned_jobs, readings_of, texts_of
from fuselight_server.execution.runs.planning import MAIN, PlannedRun
from fuselight_server.execution.runs.programs import Programs


@dataclass(frozen=True)
class ListedTarget:
    """A class, function or program."""

    path: str
    name: str
    line: int
    kind: str
    """`module`, `function`, `method`, `variable` or `main`."""
    is_compiled: bool
    """Whether the source compiles it."""
    is_run: bool
    """Whether a check of the file runs it without naming it."""
    inputs: str = ""
    """Where the inputs of that run come from, as far as the source shows; empty: a run has to find out."""


@dataclass(frozen=True)
class ListedTargets:
    """The targets of files, in the order of the files and lines."""

    targets: tuple[ListedTarget, ...]
    problems: tuple[Problem, ...]
    uncalled: tuple[str, ...]
    """Where the files compile without a call that can be run."""


def list_targets(options: CommandOptions) -> ListedTargets:
    """Read the files, and list what can be named as a target."""
    outcome = CheckOutcome(sources=SourceFiles(given=options.texts))
    texts = texts_of(options.paths, outcome)
    readings = readings_of(texts)
    programs = Programs(texts, frozenset(map(os.path.abspath, options.paths)))
    planned = [run for run, _ in planned_jobs(readings, outcome, options, programs)]
    runs = {(run.target.path, run.target.name): run for run in planned}
    listed = {
        (reading.path, target.name): ListedTarget(
            reading.path,
            target.name,
            target.def_line,
            target.kind,
            target.compiled,
            (reading.path, target.name) in runs,
            _inputs(runs.get((reading.path, target.name))),
        )
        for reading in readings.values()
        for target in reading.targets
        if target.compiled or target.directives or target.computes
    }
    for key, run in runs.items():
        if key not in listed:
            target = run.target
            listed[key] = ListedTarget(
                target.path,
                target.name or MAIN,
                target.line,
                target.kind,
                is_compiled=True,
                is_run=True,
                inputs=_inputs(run),
            )
    ordered = sorted(listed.values(), key=lambda target: (target.path, target.line, target.name))
    return ListedTargets(tuple(ordered), tuple(outcome.problems), tuple(outcome.uncalled))


def _inputs(run: PlannedRun | None) -> str:
    if run is None:
        return ""
    inputs = run.inputs
    if inputs.directives:
        return format_count(len(inputs.directives), "directive")
    if inputs.provider:
        return "the input provider of the file"
    if inputs.recorded:
        return "calls that `fuselight run` recorded"
    program = run.program
    return "" if program is None else f"the program {shown_path(program)}"
