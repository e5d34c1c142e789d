"""The page of a search as data: what the editor's window, the HTML export, the JSON and the terminal show.

Invariant: no number of a page is infinite or not a number; None is what is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from fuselight.shared.configurations import EAGER, MODES
from fuselight.shared.report import (
    Knob,
    Measured,
    Report,
    Skip,
    TuneCandidate,
    Tuned,
    TunedResult,
    TuneOutcome,
)
from fuselight.shared.tuned_code import compile_code, replay_code
from fuselight_server.base.formatting import format_target
from fuselight_server.explain.benchmarks import words as measured_words
from fuselight_server.explain.benchmarks.page import accuracy_words, memory_cell
from fuselight_server.explain.benchmarks.page import machine as machine_facts
from fuselight_server.explain.benchmarks.timing_stats import clock_of, spread_of, timing_of, varies
from fuselight_server.explain.memory.words import workspace_notes
from fuselight_server.explain.pages.page_data import finite
from fuselight_server.explain.searches import words
from fuselight_server.explain.searches.measurements import (
    DEFAULT,
    as_measured,
    candidate_of,
    compared_time,
    decided_gain,
    over_eager,
)
from fuselight_server.explain.searches.page_types import (
    CandidateRow,
    ComparisonBar,
    DecisionDetails,
    KnobRow,
    RaceSeries,
    TunedPage,
)

CALLABLES = frozenset({"function", "method"})
"""Kinds of target that are compiled by their own name; of all others, the model is."""


@dataclass(frozen=True)
class Surroundings:
    """What the page shows that the report does not contain."""

    running: bool = False
    stale: bool = False
    message: str = ""
    notes: tuple[str, ...] = ()
    file: str = ""
    """URI of the tuned file that has the result; empty if none has."""
    file_shown: str = ""
    """Its path as people read it."""
    file_problem: str = ""
    """Why the result is not in the file, and what to do."""


_ALONE = Surroundings()


def no_search(uri: str, path: str, target: str, around: Surroundings) -> TunedPage:
    """The page of a target that was not searched; `path` as people read it."""
    return TunedPage(
        found=False,
        running=around.running,
        stale=around.stale,
        partial=False,
        title=format_target(target),
        message=around.message,
        target=target,
        path=path,
        uri=uri,
        file=around.file,
        file_shown=around.file_shown,
        file_problem=around.file_problem,
        when="",
        work="",
        inputs=(),
        numerics="",
        seconds=0.0,
        budget_seconds=0.0,
        modes_seconds=0.0,
        statements=(),
        machine=(),
        notes=around.notes,
        result=None,
        comparison=(),
        knobs=(),
        candidates=(),
        race=(),
    )


def page(
    report: Report,
    around: Surroundings = _ALONE,
    *,
    uri_of: Callable[[str], str],
    shown: Callable[[str], str],
) -> TunedPage:
    """The page of a report; one without a search says what failed."""
    path, target, tuned = report.target.path, report.target.name, report.tuned
    empty = no_search(uri_of(path), shown(path), target, around)
    failed = [measured_words.failed(failure) for failure in report.failures]
    lost = [f"unknown: {problem.what}: {problem.why}" for problem in report.problems]
    if tuned is None:
        text = around.message or "; ".join(failed) or "nothing was measured"
        return replace(empty, message=text, notes=(*around.notes, *lost))
    measured = as_measured(tuned)
    whole = replace(
        empty,
        found=True,
        partial=not tuned.finished,
        when=tuned.started,
        work=measured_words.WORK[tuned.work],
        inputs=tuple(call.text for call in report.inputs.calls) if report.inputs is not None else (),
        numerics=words.NUMERICS[tuned.numerics],
        seconds=tuned.seconds,
        budget_seconds=tuned.budget_seconds,
        modes_seconds=tuned.modes_seconds,
        statements=tuple(words.statements(tuned)),
        machine=machine_facts(tuned.machine, report),
        notes=(*around.notes, *failed, *tuned.notes, *tuned.machine.notes, *workspace_notes(report), *lost),
        result=_result(tuned.result, tuned, report),
        comparison=tuple(_comparison(tuned)),
        knobs=tuple(map(_knob, tuned.knobs)),
        candidates=tuple(_candidate(candidate, tuned, measured) for candidate in tuned.candidates),
        race=tuple(_race(tuned)),
    )
    return finite(whole)


def variable_of(report: Report) -> str:
    """What the code that is copied calls the thing that it compiles."""
    name = report.target.name
    return name if report.target.kind in CALLABLES and name.isidentifier() else "model"


def code_of(result: TunedResult, report: Report) -> str:
    """The result as code."""
    device = "cuda" if result.capability else "cpu"
    return compile_code(result, variable=variable_of(report), device=device)


def _result(result: TunedResult | None, tuned: Tuned, report: Report) -> DecisionDetails | None:
    if result is None:
        return None
    confirmation = tuned.confirmation
    return DecisionDetails(
        configuration=result.configuration,
        gain=result.gain,
        gain_low=result.gain_low,
        gain_high=confirmation.high if confirmation is not None else None,
        us=result.us,
        default_us=result.default_us,
        eager_us=result.eager_us,
        accuracy=result.accuracy,
        fixes=result.fixes,
        graphs=len(result.graphs),
        code=code_of(result, report),
        replay=replay_code(result),
    )


def _comparison(tuned: Tuned) -> Iterator[ComparisonBar]:
    """Eager, torch's modes and the winner, each if it was timed: the winner last."""
    winner = tuned.result.configuration if tuned.result is not None else tuned.winner
    for name in dict.fromkeys((EAGER, *(mode for mode in MODES if mode != winner), winner)):
        known, time = candidate_of(tuned, name), compared_time(tuned, name)
        if known is not None and time is not None:
            label = words.configuration_label(name, known.knobs)
            yield ComparisonBar(name, label, time.us, estimated=time.estimated, wins=name == winner)


def _knob(knob: Knob) -> KnobRow:
    return KnobRow(
        name=knob.name,
        label=words.knob_label(knob.name),
        meaning=words.knob_meaning(knob.name),
        bound=words.bound_words(knob.bound),
        bound_us=knob.bound_us,
        ceiling=knob.ceiling,
        applies=words.applies(knob),
        tried=knob.skipped is None,
        why=words.why_skipped(knob.skipped, knob.detail) if knob.skipped is not None else knob.detail,
    )


def _candidate(candidate: TuneCandidate, tuned: Tuned, measured: Measured) -> CandidateRow:
    row = candidate.configuration
    timing = timing_of(row, clock_of(measured)) or row.wall
    accuracy = row.accuracy
    return CandidateRow(
        name=row.name,
        label=words.configuration_label(row.name, candidate.knobs),
        outcome=candidate.outcome,
        outcome_words=words.outcome_words(candidate),
        why=_why(candidate),
        us=timing.median_us if timing is not None else None,
        spread=spread_of(timing) if timing is not None else None,
        unsteady=timing is not None and varies(timing),
        gain=decided_gain(tuned, row.name) if row.name != DEFAULT else None,
        speedup=over_eager(tuned, row.name),
        first_us=row.first_us,
        peak_bytes=row.peak_bytes,
        memory=memory_cell(row),
        accurate=accuracy.passed if accuracy is not None else None,
        accuracy=accuracy_words(accuracy) if accuracy is not None else "",
        stage=candidate.stage,
        started_s=candidate.started_s,
        ready_s=candidate.ready_s,
        notes=row.notes,
    )


def _why(candidate: TuneCandidate) -> str:
    """Why a candidate did not win, where its time does not say it."""
    if candidate.configuration.failure is not None:
        return measured_words.failed(candidate.configuration.failure)
    if candidate.outcome is TuneOutcome.SKIPPED:
        return words.why_skipped(candidate.skipped or Skip.BUDGET, "")
    return words.EXPLAINED.get(candidate.outcome, "")


def _race(tuned: Tuned) -> Iterator[RaceSeries]:
    """One entry for each candidate that was timed, in the order of the first round."""
    for name in dict.fromkeys(sample.name for sample in tuned.race):
        known = next(
            (candidate for candidate in tuned.candidates if candidate.configuration.name == name), None
        )
        points = tuple((sample.at_s, sample.us, sample.stage) for sample in tuned.race if sample.name == name)
        label = words.configuration_label(name, known.knobs if known is not None else ())
        yield RaceSeries(name, label, points)
