"""The findings that are shown for a file, each once: of runs here, predictions, failed tests and open jobs.

Invariant: they are a function of the state of one moment. A finding of several sources is one entry that names each of
them, and stays while one of them has it. What comes from a job or a test names it, and changes nothing of what runs
here show.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.report import Tier
from fuselight_server.base.finding import Finding, rank
from fuselight_server.commands.findings import SourceHints, answered_targets, compose_findings
from fuselight_server.editor.results.captures import PROGRAM, CaptureResult
from fuselight_server.editor.results.newest_run import FindingValidity, NewestRun
from fuselight_server.editor.results.predictions import PredictedStatus, gone_after_edit
from fuselight_server.editor.results.target_result import TargetResult, keys_of, keys_on_disk
from fuselight_server.explain.findings import expand, nothing_ran
from fuselight_server.explain.findings.common.catalogue import Origin

if TYPE_CHECKING:
    from fuselight_server.editor.results.accuracy import AccuracyResult
    from fuselight_server.editor.results.benchmarks import MeasuredResult
    from fuselight_server.editor.results.kernels import KernelResult
    from fuselight_server.editor.results.snapshot import ResultsView
    from fuselight_server.explain.findings.static import HasRun
    from fuselight_server.source.positions import TrackedFinding
    from fuselight_server.source.reading import Reading

RUN = "fuselight"
"""The source of what runs here found."""
TEST = "fuselight pytest"
"""The source of what made tests fail."""
OF_JOB_SOURCE = "of the job's source: "
"""Before a finding of a job whose line here is known to differ from the line that ran."""
HINTS = 50
"""Hints about missing inputs in a file; each target has its lens anyway."""
LISTED = 1000
"""Findings of a file, the worst and costliest first: as many as VS Code shows."""
_MAX_NAMED = 3
"""Further sources that an entry names."""


@dataclass(frozen=True)
class ShownFinding:
    """A finding of one source, and the other sources that have the same."""

    finding: Finding
    edited: bool = False
    """Whether its line was edited since."""
    label: str = ""
    """Its source: a job or a failed test. Empty: a run here."""
    source: str = RUN
    """The source of its diagnostic while no other one has the same finding."""
    prefix: str = ""
    """Words before its message."""
    others: tuple[ShownFinding, ...] = ()

    @property
    def is_of_run(self) -> bool:
        """Whether a run here found it."""
        return not self.label

    @property
    def sources(self) -> str:
        """The sources of its diagnostic: `fuselight, job a, 2 more`."""
        names = [self.source, *(other.label for other in self.others[:_MAX_NAMED])]
        if len(self.others) > _MAX_NAMED:
            names.append(f"{len(self.others) - _MAX_NAMED:,} more")
        return ", ".join(names)


def shown_findings(view: ResultsView, path: str) -> list[ShownFinding]:
    """Findings whose line is in `path`: of runs, of failed tests and of open jobs, each once."""
    of_runs = findings_of(view, path)
    if len(of_runs) > LISTED:
        of_runs = sorted(of_runs, key=lambda item: rank(item[0]))[:LISTED]
    others = itertools.chain(_of_tests(view, path), _of_jobs(view, path))
    return each_once([*itertools.starmap(ShownFinding, of_runs), *itertools.islice(others, LISTED)])


def _of_tests(view: ResultsView, path: str) -> Iterator[ShownFinding]:
    """Yield the findings of failed tests on lines of a file, while it has the text that ran."""
    document = view.document(path)

    def keys() -> frozenset[str]:
        return keys_on_disk(path) if document is None else keys_of(document.source.text)

    for test, finding in view.failed_tests.on(path, keys):
        yield ShownFinding(finding, label=test.test, source=TEST, prefix=f"{test.test} fails: ")


def _of_jobs(view: ResultsView, path: str) -> Iterator[ShownFinding]:
    """Yield the findings of open jobs on lines of a file."""
    for job in view.jobs.values():
        for item in job.on(path):
            edited = item.tracked.edited
            prefix = OF_JOB_SOURCE if item.is_of_job_source and not edited else ""
            yield ShownFinding(item.tracked.now(), edited, job.label, f"Fuselight {job.label}", prefix)


def each_once(listed: Iterable[ShownFinding]) -> list[ShownFinding]:
    """Make one entry of the same finding of several sources: that of the first, with the others."""
    groups: dict[tuple[object, ...], list[list[ShownFinding]]] = {}
    for item in listed:
        same = groups.setdefault(_same_on_line(item.finding), [])
        of_other_sources = [group for group in same if all(known.label != item.label for known in group)]
        group = min(
            of_other_sources, key=lambda known: known[0].finding.span != item.finding.span, default=[]
        )
        if not group:
            same.append(group)
        group.append(item)
    return [replace(first, others=tuple(others)) for same in groups.values() for first, *others in same]


def _same_on_line(finding: Finding) -> tuple[object, ...]:
    """What a finding is known by on its line; the columns may be unknown to one of the sources."""
    return finding.code, finding.span.path, finding.span.line, finding.subject or finding.title


def findings_of(view: ResultsView, path: str) -> list[tuple[Finding, bool]]:
    """Findings whose line is in `path`, each with whether that line (or what a benchmark or comparison ran) was edited.

    Of a cause with several places (findings/causes.py), one is explained and the others refer to it. Predicted findings
    are among them; a finding that a prediction no longer has says so.
    """
    document = view.document(path)
    reading = document.reading() if document else None
    results = [result for result in view.captures.values() if path in result.paths()]
    kernels = [kernel for kernel in view.kernels.values() if path in kernel.paths()]
    measured = [benchmark for benchmark in view.measured.values() if path in benchmark.paths()]
    tuned = [tuning for tuning in view.tunings.values() if path in tuning.paths()]
    compared = [comparison for comparison in view.comparisons.values() if path in comparison.paths()]
    findings_by_key: _FindingsByKey = {}
    captured = sorted(results, key=_is_program)
    gone: dict[tuple[object, ...], bool] = {}
    lives = _lives((*captured, *kernels, *measured, *tuned, *compared))
    _add_shown_findings(view, findings_by_key, path, lives, gone)
    _add_predicted(view, findings_by_key, path)
    _add_same_causes(view, findings_by_key, path, results)
    edited = {_identity(finding): was_edited for finding, was_edited in findings_by_key.values()}
    everything = [finding for finding, _ in findings_by_key.values()]
    files = dict.fromkeys((*(finding.span.path for finding in everything), path))
    documents = {at: view.document(at) for at in files}
    comments = {at: opened.reading() for at, opened in documents.items() if opened is not None}
    hints = [_hints(view, reading)] if reading is not None else []
    has_run = completed_runs(reading, results, kernels, measured, compared)
    return [
        (gone_after_edit(finding), False)
        if gone.get(_identity(finding))
        else (finding, edited.get(_identity(finding), False))
        for full in compose_findings(everything, hints, comments, has_run=has_run)
        for finding in expand(full)
        if finding.span.path == path
    ]


_FindingsByKey = dict[tuple[object, ...], tuple["Finding", bool]]
"""Findings of runs, each with whether its line was edited, by what makes two of them the same."""
_Live = tuple["TrackedFinding", "TargetResult", "TargetResult"]
"""A finding, its result, and the newest result of the same target."""


def _is_program(result: TargetResult) -> bool:
    return result.key.name == PROGRAM


def _identity(finding: Finding) -> tuple[object, ...]:
    """What stays of a finding when it is folded."""
    return finding.code, finding.span, finding.cause or finding.title


def _lives(results: Iterable[TargetResult]) -> Iterator[_Live]:
    for target_result in results:
        for source in target_result.sources:
            for live in source.own:
                yield live, source, target_result
        for live in target_result.ends:
            yield live, target_result, target_result


def _add_shown_findings(
    view: ResultsView,
    findings_by_key: _FindingsByKey,
    path: str,
    lives: Iterable[_Live],
    gone: dict[tuple[object, ...], bool] | None = None,
) -> None:
    """Add the findings on lines of `path` that still count; note in `gone` whether predictions no longer have them.

    Two targets can have the same finding. It is shown as unedited if it is for one of them, and as removed only if it
    is predicted so for each.
    """
    newest = NewestRun.of(path, view.results.values(), view.read_line)
    for live, source, target_result in lives:
        if live.place.is_deleted or live.place.span.path != path:
            continue
        validity = newest.validity(live, source, target_result)
        if validity is FindingValidity.REPLACED:
            continue
        finding = live.now()
        predicted = _predicted_status(view, live, target_result)
        if predicted is not None and live.edited:
            continue  # the prediction has it in its own words, or no longer
        if gone is not None:  # a finding of two targets is gone where it is for both
            was_gone = gone.get(_identity(finding), True)
            gone[_identity(finding)] = was_gone and predicted is PredictedStatus.REMOVED
        is_doubtful = live.edited or target_result.findings_are_stale or validity is FindingValidity.DOUBTFUL
        was_edited = is_doubtful and predicted is not PredictedStatus.REPEATED
        same = (finding.code, finding.span, finding.title)
        if same not in findings_by_key or (findings_by_key[same][1] and not was_edited):
            findings_by_key[same] = finding, was_edited


def _predicted_status(
    view: ResultsView, live: TrackedFinding, newest: TargetResult
) -> PredictedStatus | None:
    """Return what the edits of its file are predicted to make of a finding of the last run."""
    prediction = view.predictions.get((newest.key, live.place.span.path))
    return None if prediction is None else prediction.status(live)


def _add_predicted(view: ResultsView, findings_by_key: _FindingsByKey, path: str) -> None:
    """Add what is predicted on lines of `path`, where no run has found the same."""
    places = {same: (finding.code, finding.span.line) for same, (finding, _) in findings_by_key.items()}
    known = {places[same] for same, (_, was_edited) in findings_by_key.items() if not was_edited}
    for prediction in view.predictions.values():
        for finding in prediction.findings():
            at = (finding.code, finding.span.line)
            if finding.span.path == path and at not in known:
                for older in [same for same, place in places.items() if place == at]:
                    findings_by_key.pop(older, None)
                findings_by_key.setdefault((finding.code, finding.span, finding.title), (finding, False))


def _add_same_causes(
    view: ResultsView, findings_by_key: _FindingsByKey, path: str, results: Iterable[CaptureResult]
) -> None:
    """Add the findings of other files that share a cause with one in `path`."""
    causes = {(finding.code, finding.cause) for finding, _ in findings_by_key.values() if finding.cause}
    if not causes:
        return
    files = {result.key.path for result in results}
    elsewhere: dict[str, list[_Live]] = {}
    captures = [capture for capture in view.captures.values() if capture.key.path in files]
    for live, source, target_result in _lives(sorted(captures, key=_is_program)):
        at = live.place.span.path
        if at != path and (live.finding.code, live.finding.cause) in causes:
            elsewhere.setdefault(at, []).append((live, source, target_result))
    for at, lives in elsewhere.items():
        _add_shown_findings(view, findings_by_key, at, lives)


def _hints(view: ResultsView, reading: Reading) -> SourceHints:
    """What the source of a file is read for, where no run has found the inputs of a target."""
    path = reading.path
    answered = answered_targets(reading, (result.report for result in view.captures.values()))
    is_hinted = path_is_file(path) and view.settings_of(path).hints.no_inputs
    return SourceHints(reading, answered, HINTS if is_hinted else 0)


def completed_runs(
    reading: Reading | None,
    results: Iterable[CaptureResult],
    kernels: Iterable[KernelResult],
    measured: Iterable[MeasuredResult] = (),
    compared: Iterable[AccuracyResult] = (),
) -> HasRun:
    """Return whether runs of the text as it is would have found the codes of an origin, for the comments of a file.

    A file that is not open has none.
    """
    if reading is None:
        return nothing_ran
    captured = [result for result in results if _is_current(reading, result) and not result.report.failures]
    is_measured = any(_is_current(reading, result.shown) for result in measured)
    is_compared = any(_is_current(reading, result.shown) for result in compared)
    completed = {
        Origin.SOURCE: True,
        Origin.CAPTURE: bool(captured),
        Origin.NOTEBOOK: bool(captured) and reading.path.endswith(SUFFIX),
        Origin.RANKS: any(result.report.world is not None for result in captured),
        Origin.KERNELS: any(_is_current(reading, result) for result in kernels),
        Origin.MEASURED: is_measured,
        Origin.RESULTS: is_measured or is_compared,
    }
    return lambda path, origin: path == reading.path and completed.get(origin, False)


def _is_current(reading: Reading, result: TargetResult) -> bool:
    return reading.path in result.depends and not result.stale and result.has_data


def path_is_file(path: str) -> bool:
    """Whether a path can be named to the client as a file."""
    return not path.startswith(("<", "untitled:", "vscode-notebook-cell:"))


PREDICTED = "Predicted from your edit; the next run confirms it"

_ADDRESS = re.compile(r"(?:https|file)://[^\s<>\\]+")


def address(finding: Finding) -> str | None:
    """Return where the finding's page is: on the web or a file, and nothing that an editor would run."""
    href = finding.link
    return href if href is not None and is_address(href) else None


def is_address(text: str) -> bool:
    """Whether a text is an address on the web or of a file, and nothing that an editor would run."""
    return _ADDRESS.fullmatch(text) is not None


def message(finding: Finding) -> str:
    """Words of a diagnostic: one line, as a list of problems wants it, with how often it came up.

    Explanation, cost, hints and inputs are the hover's, which an editor shows under these words.
    """
    if finding.tier is Tier.PREDICTED:
        return f"{finding.title}. {PREDICTED}"
    return finding.title + (f" ({finding.count} times)" if finding.count > 1 else "")
