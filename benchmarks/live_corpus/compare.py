"""One source: its run, its edits, and for each edit what the rules, the trace and a run of the edited text find.

Invariant: the truth is a run of the edited text in the way of `fuselight check`: same worker, same request. Line and
code of the findings of this file are compared; those that the run before the edit had on unedited lines do not count.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.live_corpus.edits import edits_of
from fuselight.shared.protocol import Answer, RunRequest
from fuselight.shared.report import Report
from fuselight_server.editor.rules import predict
from fuselight_server.editor.rules.edited import EditedText
from fuselight_server.explain.findings import findings
from tests.support.live_run import LiveRunClient
from tests.support.live_worker import LiveWorker

if TYPE_CHECKING:
    from benchmarks.live_corpus.edits import CorpusEdit
    from benchmarks.live_corpus.sources import Source

Place = tuple[int, str]
"""Line in the edited text, and code."""

TARGET = "LiveCorpusModel"
_NOT_COMPARED = ("FL5", "FL6", "FL7", "FL8", "FL106")
"""Codes that say nothing of breaks, recompilations and errors."""


@dataclass
class EditOutcome:
    """One edit, compared."""

    source: str
    kind: str
    cause: str
    function: str
    lines: tuple[int, int]
    """First and last new line; the line before a removal twice."""
    added: list[Place] = field(default_factory=list)
    """What the run of the edited text finds that the run before had not."""
    gone: int = 0
    """What the run before found on lines that are as they ran, and the run of the edited text does not."""
    rules: list[Place] = field(default_factory=list)
    trace: list[Place] | None = None
    """None where the trace gave no answer."""
    refused: str = ""
    """Why it gave none."""
    wrong_rules: list[Place] = field(default_factory=list)
    wrong_trace: list[Place] = field(default_factory=list)
    whole: list[Place] | None = None
    """What a trace of the whole model with the edited text finds: the function and all that calls it."""
    wrong_whole: list[Place] = field(default_factory=list)
    whole_ms: float = 0.0
    kept: int | None = None
    """Findings of the edited function that are gone in truth, and that the trace still has; None without an answer."""
    rules_ms: float = 0.0
    trace_ms: float = 0.0
    run_ms: float = 0.0
    function_lines: int = 0
    """Lines of the function in the text without an insertion."""
    error: str = ""


def places(report: Report, path: str, text: str, *, includes_callers: bool = False) -> set[Place]:
    """What a report finds in a file, the class of the corpus itself left out; see `findings`."""
    last = next(n for n, row in enumerate(text.split("\n"), 1) if row.startswith(f"class {TARGET}"))
    return {
        (finding.span.line, finding.code)
        for finding in findings(report, includes_callers=includes_callers)
        if finding.span.path == path
        and finding.span.line < last
        and not finding.code.startswith(_NOT_COMPARED)
    }


def moved(pairs: set[Place], edited: EditedText) -> set[Place]:
    """Places of the text that ran, where they are in the edited one; those on lines that were edited are dropped."""
    now = {edited.then(line): line for line in range(1, len(edited.new) + 1)}
    return {(now[line], code) for line, code in pairs if line in now and line}


class SourceComparison:
    """One source in a worker."""

    def __init__(self, source: Source, worker: LiveWorker) -> None:
        self.source = source
        self.worker = worker
        self.path = str(worker.folder / "model.py")
        self.text = source.text()

    def request(self, text: str) -> RunRequest:
        """A run of a text."""
        line = next(n for n, row in enumerate(text.split("\n"), 1) if row.startswith("def example_inputs"))
        return self.worker.request(
            text, TARGET, provider="example_inputs", provider_line=line, annotations=False, seconds=120.0
        )

    def run(self, text: str) -> Report:
        """The report of a text."""
        return self.worker.report(self.request(text))

    def outcomes(self, seed: str, counts: dict[str, int], *, removals: int) -> list[EditOutcome]:
        """All edits of the source. Raises RuntimeError if its own text does not run."""
        base = self.run(self.text)
        if base.failures:
            raise RuntimeError(f"{base.failures[0].exception}: {base.failures[0].message[:200]}")
        outcomes = []
        live = LiveRunClient(self.worker, self.request(self.text))
        removable: list[tuple[CorpusEdit, Report]] = []
        try:
            for edit in edits_of(self.text, self.path, base, f"{seed} {self.source.name}", counts):
                last = edit.lines[-1]
                outcome = EditOutcome(
                    self.source.name, edit.kind, edit.cause, edit.place.function, (edit.lines[0], last)
                )
                outcome.function_lines = edit.place.function_lines
                report = self.compare(outcome, base, self.text, edit.text, live)
                outcomes.append(outcome)
                if (
                    edit.kind == "insert"
                    and report is not None
                    and outcome.added
                    and len(removable) < removals
                ):
                    removable.append((edit, report))
        finally:
            live.close()
        for edit, report in removable:
            outcome = EditOutcome(
                self.source.name, "remove", edit.cause, edit.place.function, (edit.place.after,) * 2
            )
            outcome.function_lines = edit.place.function_lines
            live = LiveRunClient(self.worker, self.request(edit.text))
            try:
                self.compare(outcome, report, edit.text, self.text, live, truth=base)
            finally:
                live.close()
            outcomes.append(outcome)
        return outcomes

    def compare(
        self,
        outcome: EditOutcome,
        ran: Report,
        was: str,
        now: str,
        live: LiveRunClient,
        *,
        truth: Report | None = None,
    ) -> Report | None:
        """Fill in an outcome. Returns the report of the run of the edited text."""
        edited = EditedText.of(was, now)
        assert edited is not None
        start = time.perf_counter()
        rules = {(finding.span.line, finding.code) for finding in predict(ran, self.path, was, now)}
        outcome.rules_ms = (time.perf_counter() - start) * 1e3
        start = time.perf_counter()
        answer = retraced(live, now, outcome.function)
        outcome.trace_ms = (time.perf_counter() - start) * 1e3
        start = time.perf_counter()
        whole = retraced(live, now, outcome.function, f"{TARGET}.forward")
        outcome.whole_ms = (time.perf_counter() - start) * 1e3
        if truth is None:
            start = time.perf_counter()
            truth = self.run(now)
            outcome.run_ms = (time.perf_counter() - start) * 1e3
        true = places(truth, self.path, now)
        before = moved(places(ran, self.path, was), edited)
        outcome.added = sorted(true - before)
        outcome.gone = len(before - true)
        outcome.rules = sorted(rules - before)
        outcome.wrong_rules = sorted(rules - before - true)
        if isinstance(answer, str):
            outcome.refused = answer
        else:
            traced = places(answer, self.path, now)
            outcome.trace = sorted(traced - before)
            outcome.wrong_trace = sorted(traced - before - true)
            outcome.kept = len((before - true) & traced)
            outcome.refused = "; ".join(
                problem.why for problem in answer.problems if problem.stage == "retrace"
            )
        if not isinstance(whole, str):
            traced = places(whole, self.path, now, includes_callers=True)
            outcome.whole = sorted(traced - before)
            outcome.wrong_whole = sorted(traced - before - true)
        return truth


def retraced(live: LiveRunClient, text: str, *functions: str) -> Report | str:
    """The report of functions of an edited text, or why there is none."""
    if live.ready is None:
        return "the live run did not start"
    answer = live.ask(text, *functions, seconds=20.0)
    return answer.report if isinstance(answer, Answer) else answer.reason


def compare_source(source: Source, seed: str, counts: dict[str, int], removals: int) -> list[dict[str, Any]]:
    """All outcomes of a source, as plain data; one with an `error` where it does not run."""
    with tempfile.TemporaryDirectory() as folder:
        worker = LiveWorker(Path(folder))
        try:
            outcomes = SourceComparison(source, worker).outcomes(seed, counts, removals=removals)
        except Exception as error:  # noqa: BLE001 - a library may raise anything: the source is named and left out
            why = f"{type(error).__name__}: {str(error)[:300]}"
            outcomes = [EditOutcome(source.name, "", "", "", (0, 0), error=why)]
        finally:
            worker.close()
    return [asdict(outcome) for outcome in outcomes]
