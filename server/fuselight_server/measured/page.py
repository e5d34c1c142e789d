"""The page of a benchmark as data: what the editor's window, the exports and the terminal show, all from here.

Invariant: JSON's own types under the names that `extension/src/bench/messages.ts` types; None is what is not known, or
not a number, and every line is where the view says that it is now. Names of the page's parts and their meaning are in
docs/bench.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuselight.report import MeasuredConfiguration
from fuselight_server.formatting import format_count, format_list, format_time
from fuselight_server.kernels.shares import SourceLine, place_of
from fuselight_server.measured import words
from fuselight_server.measured.details import details
from fuselight_server.measured.lines import times_by_line
from fuselight_server.measured.timing_stats import (
    clock_of,
    has_times,
    range_of,
    speedup,
    spread_of,
    timing_of,
)
from fuselight_server.measured.verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import Accuracy, Machine, Measured, Report, Stack
    from fuselight_server.measured.causes import Statement
    from fuselight_server.measured.view import Shows, Still

Json = dict[str, Any]

OTHERWISE = 2.0
"""A note reports a call whose time with and without the profiler differs by more than this factor."""


@dataclass(frozen=True)
class Around:
    """What the page says beside the report."""

    run: str | None = None
    """The id under which what is shown lies in the history; None where it does not."""
    running: bool = False
    stale: bool = False
    message: str = ""
    notes: tuple[str, ...] = ()
    history: tuple[Json, ...] = ()
    comparison: Json | None = None


@dataclass(frozen=True)
class Named:
    """Whose page it is, for where there is no report yet."""

    path: str
    target: str

    @property
    def title(self) -> str:
        """How users read it."""
        return self.target or "__main__"


_NOTHING_AROUND = Around()


def nothing(named: Named, view: Shows, around: Around) -> Json:
    """Return the page of a target that was not measured."""
    return {
        **_head(named, view, around),
        "found": False,
        "partial": False,
        "when": "",
        "work": "",
        "inputs": [],
        "verdict": [],
        "machine": [],
        "notes": list(around.notes),
        "configurations": [],
        "profiles": {},
    }


def page(report: Report, view: Shows, around: Around = _NOTHING_AROUND) -> Json:
    """Return the page of a report; one in which nothing was measured says what failed."""
    return of_body(body(report, view), report, view, around)


@dataclass(frozen=True)
class Drawn:
    """A page's body, and the lines that it was made with: where these are the same, so is the body."""

    still: Still
    body: Json | None


def body(report: Report, view: Shows) -> Json | None:
    """Return what a page has of its report, whatever goes on around it; None where nothing was measured."""
    measured = report.measured
    if measured is None:
        return None
    made: Json = _finite(
        {
            "found": True,
            "when": measured.started,
            "work": words.WORK[measured.work],
            "inputs": [call.text for call in report.inputs.calls] if report.inputs is not None else [],
            "verdict": [_statement(one, view) for one in verdict(report)],
            "machine": machine(measured.machine, report),
            "notes": notes(report, measured),
            "partial": not measured.finished,
            "configurations": [_row(one, measured, report, view) for one in _asked_for(measured)],
            "profiles": {
                one.name: details(one, report, view)
                for one in measured.configurations
                if one.profile is not None or one.compile_steps
            },
        }
    )
    return made


def of_body(made: Json | None, report: Report, view: Shows, around: Around) -> Json:
    """Return the page of a body."""
    named = Named(report.target.path, report.target.name)
    if made is None:
        failed = "; ".join(words.failed(one) for one in report.failures)
        message = around.message or failed or "nothing was measured"
        return {**nothing(named, view, around), "message": message, "notes": [*around.notes, *_lost(report)]}
    return {**_head(named, view, around), **made, "notes": [*around.notes, *made["notes"]]}


def _statement(one: Statement, view: Shows) -> Json:
    return {"text": one.text, "place": view.place(one.place), "configuration": one.configuration}


def places_of(report: Report) -> Iterator[SourceLine]:
    """Yield every line that the page of a report names."""
    measured = report.measured
    for one in measured.configurations if measured is not None else ():
        stacks: list[Stack] = [one.accuracy.first] if one.accuracy is not None else []
        stacks += [gap.stack for gap in one.profile.gaps] if one.profile is not None else []
        places = [place_of(stack, report.roots) for stack in stacks]
        places += [line.place for line in times_by_line(one, report.roots)]
        at = [step.location for step in one.compile_steps]
        places += [SourceLine(each.path, each.line) for each in at if each is not None]
        yield from (place for place in places if place is not None)
    yield from (one.place for one in verdict(report) if one.place is not None)


def _finite(value: Any) -> Any:
    """Return a value in which no number is infinite, or none at all: JSON has no such numbers."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _head(named: Named, view: Shows, around: Around) -> Json:
    return {
        "run": around.run,
        "running": around.running,
        "stale": around.stale,
        "title": named.title,
        "message": around.message,
        "target": named.target,
        "path": view.shown(named.path),
        "uri": view.uri_of(named.path),
        "history": list(around.history),
        "comparison": around.comparison,
    }


def machine(one: Machine, report: Report) -> list[dict[str, str]]:
    """Return where it was measured, name by name."""
    facts = [
        ("device", words.device(one) if has_times(report.measured) else ""),
        ("CUDA_VISIBLE_DEVICES", one.visible or ""),
        ("UUID", one.uuid),
        ("MIG", "yes" if one.mig else ""),
        ("driver", one.driver),
        ("CUDA", one.cuda),
        ("clocks", one.clocks),
        ("threads", str(one.threads) if one.threads else ""),
        ("torch", report.versions.torch or ""),
        ("triton", report.versions.triton or ""),
        ("Python", report.versions.python),
        ("platform", report.versions.platform),
    ]
    return [{"name": name, "value": value} for name, value in facts if value]


def notes(report: Report, measured: Measured) -> list[str]:
    """Return what makes the numbers doubtful, and what was not done."""
    said = {
        "partial: still running or stopped; these are the times measured so far": (
            not measured.finished and has_times(measured)
        ),
        "the device's L2 cache was cleared before each timed call": measured.cold_cache,
        "each call got copies of its inputs, as the target changes them": measured.fresh_inputs,
        "eager is nondeterministic: its results differ from run to run": measured.random is True,
    }
    told = [text for text, is_so in said.items() if is_so]
    return [*told, *_profiled_otherwise(measured), *measured.machine.notes, *_lost(report)]


def _profiled_otherwise(measured: Measured) -> Iterator[str]:
    """Yield a note where profiled calls took a very different time from the timed ones."""
    found = []
    for one in measured.configurations:
        profile, wall = one.profile, one.wall
        if profile is None or wall is None or profile.wall_us <= 0 or wall.median_us <= 0:
            continue
        if max(profile.wall_us / wall.median_us, wall.median_us / profile.wall_us) > OTHERWISE:
            without = f"{format_time(wall.median_us)} without"
            found.append(f"{format_time(profile.wall_us)} as {one.name} ({without})")
    if found:
        whose = "lines, kernels and where the time goes are of such calls"
        yield f"with the profiler on, a call took {format_list(found)}: {whose}"


def _lost(report: Report) -> list[str]:
    failed = [words.failed(one) for one in report.failures]
    return [*failed, *(f"unknown: {one.what}: {one.why}" for one in report.problems)]


def _asked_for(measured: Measured) -> Iterator[MeasuredConfiguration]:
    """Yield all configurations in their order, those of which nothing is known among them."""
    known = {one.name: one for one in measured.configurations}
    for name in dict.fromkeys((*measured.order, *known)):
        yield known.get(name) or MeasuredConfiguration(name)


def _row(one: MeasuredConfiguration, measured: Measured, report: Report, view: Shows) -> Json:
    clock = clock_of(measured)
    timing = timing_of(one, clock) or one.wall
    mine = range_of(timing) if timing is not None else None
    faster = speedup(measured, one)
    alone = ("measured separately: not enough memory to run alongside the others",) if one.alone else ()
    return {
        "name": one.name,
        "failure": words.failed(one.failure) if one.failure is not None else None,
        "speedup": faster,
        "us": mine.us if mine is not None else None,
        "spread": spread_of(timing) if timing is not None else None,
        "unsteady": timing is not None and timing.unsteady,
        "clock": timing.clock.value if timing is not None else None,
        "wall_us": one.wall.median_us if one.wall is not None else None,
        "first_us": one.first_us,
        "second_us": one.second_us,
        "calls": timing.calls if timing is not None else 0,
        "peak_bytes": one.peak_bytes,
        "own_bytes": one.own_bytes,
        "accuracy": None if one.accuracy is None else _accuracy(one.accuracy, report, view),
        "graph_breaks": one.graph_breaks,
        "compiles": one.compiles,
        "recompiles": one.recompiles,
        "notes": [*one.notes, *alone],
    }


def accuracy_words(accuracy: Accuracy) -> str:
    """Return in a line what the comparison with eager came to."""
    if accuracy.passed is None:
        return f"not compared: {accuracy.why}" if accuracy.why else "not compared"
    tolerance = f" within a tolerance of {accuracy.tolerance:g}" if accuracy.tolerance is not None else ""
    compared = format_count(accuracy.compared, "tensor") if accuracy.compared else ""
    against = f" against {accuracy.against}" if accuracy.against else ""
    many = f" ({compared}{against})" if compared else ""
    if accuracy.passed:
        return f"as eager{tolerance}{many}"
    why = f": {accuracy.why}" if accuracy.why else ""
    is_new = accuracy.first_operator and accuracy.first_operator not in accuracy.why
    first = f"; first differs in {accuracy.first_operator}" if is_new else ""
    return f"not as eager{tolerance}{many}{why}{first}"


def _accuracy(accuracy: Accuracy, report: Report, view: Shows) -> Json:
    return {
        "passed": accuracy.passed,
        "text": accuracy_words(accuracy),
        "tensors": [
            {
                "what": tensor.what,
                "cosine": tensor.cosine,
                "absolute": tensor.absolute,
                "relative": tensor.relative,
                "passed": tensor.passed,
            }
            for tensor in accuracy.tensors
        ],
        "place": view.place(place_of(accuracy.first, report.roots)),
    }
