"""Changes of the source that need less memory: each is estimated as the text before it, and its results are compared.

Invariant: an edit is shown only if the peak of one form falls and that of the other does not rise; one whose results
were not compared says why. Nothing is written.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.protocol import MemoryRequest, RunRequest
from fuselight.shared.report import EditKind, EditResults, MemoryChange, MemoryUse, SavingKind, TriedEdit
from fuselight.shared.report.place import Location, is_user_file
from fuselight_server.base.diff_text import unified_lines
from fuselight_server.commands.verify import VerdictKind
from fuselight_server.execution.runs.planning import with_texts
from fuselight_server.explain.memory.words import peak_bytes, shown_peak

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from fuselight.shared.report import MemoryEstimate, MemorySaving, Report
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun
    from fuselight_server.fixes.rewrites.memory_edits import MemoryEdit
    from fuselight_server.fixes.verification.fixer import Fixer
    from fuselight_server.fixes.verification.patches import PatchVerdict

RequestT = TypeVar("RequestT", bound=RunRequest)

MAX_EDITS = 8
_MAX_OF_KIND = 3
_MAX_REGIONS = 3
LEAST_GAIN = 0.01
"""Of the peak: what needs less than this less is not shown."""
_EQUAL = 0.001
"""Of the peak: the difference of steps that need the same."""
_LEAST_PART = 0.01
"""Of what is saved, or of the peak in inference: lines with less have no edits."""
_LEAST_SECONDS = 2.0
"""With less time left, nothing is tried."""
_COMPARE_SECONDS = 60.0
"""At least for the comparison of an edit that needs less: 20 s were too few for two of two on 16 cores."""
_BREAKS = ("GB", "FL1")
"""How the codes of findings on graph breaks start."""
_NOT_RUN = "nothing that is compiled runs the line"
_OVER = "the time for changes was over"
_NO_GRADIENTS = "the directive has no `train=True`, so that gradients were not compared"
_WORST_FIRST = (VerdictKind.FAILS, VerdictKind.DIFFERS, VerdictKind.UNVERIFIED, VerdictKind.SAME)


async def with_edits(
    run: TargetRun, outcome: CheckOutcome, report: Report, request: MemoryRequest, seconds: float
) -> Report:
    """The report with the edits of its largest call that were tried within `seconds`.

    `request`: that of the report, without savings.
    """
    if report.failures or not report.memory:
        return report
    index = max(range(len(report.memory)), key=lambda number: peak_bytes(report.memory[number]))
    trials = _EditTrials(run, outcome, report, request, index, time.monotonic() + seconds)
    edits = sorted([edit async for edit in trials.useful()], key=_peak_with)
    estimates = list(report.memory)
    untried = (*estimates[index].untried, *trials.untried)
    estimates[index] = replace(estimates[index], edits=tuple(edits), untried=untried)
    return replace(report, memory=tuple(estimates))


def _peak_with(edit: TriedEdit) -> int:
    return edit.compiled if edit.compiled is not None else edit.eager or 0


@dataclass
class _EditTrials:
    """The trials of one target."""

    run: TargetRun
    outcome: CheckOutcome
    report: Report
    request: MemoryRequest
    index: int
    """Of the estimate that edits are compared with."""
    until: float
    """When trials end, as `time.monotonic()`."""
    untried: list[str] = field(default_factory=list)
    """Edits for which there was no time."""
    _first: Report | None = None
    """The capture of the text without an edit, once it is needed."""

    @property
    def before(self) -> MemoryEstimate:
        """The estimate without edits."""
        return self.report.memory[self.index]

    async def useful(self) -> AsyncIterator[TriedEdit]:
        """Yield each edit that needs less, with what came of its verification: those first that may save most."""
        from fuselight_server.fixes.verification.fixer import Fixer  # noqa: PLC0415 - with LibCST

        with owned_folder("memory") as folder:
            fixer = Fixer(
                read=self.outcome.sources.text_or_none,
                obstacle=lambda _remedy: "",
                readings=self.outcome.readings,
                folder=folder,
            )
            for edit in self._chosen([*self._edits(), *await self._without_breaks(fixer)]):
                tried = await self._estimated(edit)
                compared = await self._compared(fixer, edit, tried) if tried is not None else None
                if compared is not None:
                    yield compared

    # What is tried.

    def _chosen(self, edits: Sequence[MemoryEdit]) -> list[MemoryEdit]:
        """The edits that are tried."""
        chosen: list[MemoryEdit] = []
        counts: dict[EditKind, int] = {}
        sizes, order = dict(self._kept_lines()), (*EditKind,)
        for edit in sorted(edits, key=lambda edit: (-self._expected(edit, sizes), order.index(edit.kind))):
            counts[edit.kind] = counts.get(edit.kind, 0) + 1
            if counts[edit.kind] <= _MAX_OF_KIND and edit.text not in {other.text for other in chosen}:
                chosen.append(edit)
        return chosen[:MAX_EDITS]

    def _edits(self) -> Iterator[MemoryEdit]:
        from fuselight_server.fixes.rewrites.memory_edits import EditPlaces, memory_edits  # noqa: PLC0415 - LibCST

        kept = self._kept_lines()
        regions = [saving.calls for saving in self.before.savings if saving.kind is SavingKind.CHECKPOINT]
        regions = [calls for calls in regions if calls][:_MAX_REGIONS]
        paths = dict.fromkeys(
            [*(calls[0].path for calls in regions), *(path for (path, _), _ in kept), self.report.target.path]
        )
        return (
            edit
            for path in paths
            if is_user_file(path, self.request.roots)
            and (text := self.outcome.sources.text_or_none(path)) is not None
            for edit in memory_edits(
                path,
                text,
                EditPlaces(
                    [line for (of, line), _ in kept if of == path],
                    [calls for calls in regions if calls[0].path == path],
                    training=self.before.training,
                ),
            )
        )

    async def _without_breaks(self, fixer: Fixer) -> list[MemoryEdit]:
        """The fixes of graph breaks, each as an edit, where a break keeps values of one graph for the next."""
        from fuselight_server.fixes.rewrites.memory_edit import MemoryEdit  # noqa: PLC0415 - LibCST

        if not self._passed_lines() or (seconds := self.until - time.monotonic()) < _LEAST_SECONDS:
            return []
        report = await self._captured(seconds)
        fixer.add_target(self.run, report)
        return [
            MemoryEdit(EditKind.GRAPH_BREAK, remedy.title, finding.span.path, finding.span.line, text)
            for finding in fixer.findings(report)
            if finding.code.startswith(_BREAKS)
            for remedy in fixer.candidates(finding, report)[:1]
            if (text := remedy.texts.get(finding.span.path)) is not None and len(remedy.texts) == 1
        ]

    def _passed_lines(self) -> set[tuple[str, int]]:
        """The lines whose values a graph passes to the next one."""
        return {
            (entry.location.path, entry.location.line)
            for entry in self.before.changes
            if entry.change is MemoryChange.PASSED
        }

    def _expected(self, edit: MemoryEdit, kept: dict[tuple[str, int], int]) -> int:
        """The bytes that an edit may save: what its modules saved when checkpointed, or what its line keeps."""
        line = (edit.path, edit.line)
        if edit.kind is EditKind.GRAPH_BREAK:
            return sum(kept.get(line, 0) for line in self._passed_lines())
        if edit.kind is EditKind.CHECKPOINT:
            return max(
                (
                    _less(self.before, saving)
                    for saving in self.before.savings
                    if line in {(call.path, call.line) for call in saving.calls}
                ),
                default=0,
            )
        return kept.get(line, 0)

    def _kept_lines(self) -> list[tuple[tuple[str, int], int]]:
        """The lines that hold a part of what the backward needs, or of the peak, with bytes, the largest first."""
        sizes: dict[tuple[str, int], int] = {}
        for peak in (self.before.eager, self.before.compiled):
            rows = (*peak.saved, *(row for row in peak.held if row.use in _MADE)) if peak is not None else ()
            for row in rows:
                if row.location is not None:
                    key = row.location.path, row.location.line
                    sizes[key] = max(sizes.get(key, 0), row.bytes)
        shown = shown_peak(self.before)
        saved = sum(row.bytes for row in shown.saved) if shown is not None else 0
        least = _LEAST_PART * (saved or peak_bytes(self.before))
        return sorted((item for item in sizes.items() if item[1] >= least), key=lambda item: -item[1])

    # Trials.

    async def _estimated(self, edit: MemoryEdit) -> TriedEdit | None:
        """The edit with its peaks; None where it needs no less, or cannot be estimated."""
        seconds = self._seconds(edit)
        if seconds <= 0:
            return None
        self.run.show(f"trying {edit.title} on line {edit.line}")
        request = replace(with_texts(self.request, {edit.path: edit.text}), id=self.request.id)
        report = await self.run.run_report(_limited(request, seconds))
        if any(failure.kind == "timeout" for failure in report.failures):
            self.untried.append(_name(edit))
        if report.failures or len(report.memory) != len(self.report.memory):
            return None
        after = report.memory[self.index]
        if not needs_less(self.before, after, gain=0 if edit.kind is EditKind.NO_CHECKPOINT else LEAST_GAIN):
            return None
        return TriedEdit(
            edit.kind,
            edit.title,
            Location(edit.path, edit.line),
            EditResults.UNKNOWN,
            "",
            after.eager.bytes if after.eager is not None else None,
            after.compiled.bytes if after.compiled is not None else None,
            diff="".join(
                unified_lines(edit.path, self.outcome.sources.text_or_none(edit.path) or "", edit.text)
            ),
        )

    def _seconds(self, edit: MemoryEdit) -> float:
        """How long the trial of an edit may take; 0 if the time is over."""
        left = self.until - time.monotonic()
        if left < _LEAST_SECONDS:
            self.untried.append(_name(edit))
            return 0
        return left

    # Results.

    async def _parts(self, seconds: float) -> list[tuple[TargetRun, Report]]:
        """What is compared: the target, or each call of a program."""
        from fuselight_server.commands.fix_parts import parts_of  # noqa: PLC0415 - with LibCST

        return await parts_of(self.run, self.run.token, await self._captured(seconds), self.run.of_call)

    async def _captured(self, seconds: float) -> Report:
        """The capture of the text without an edit."""
        if self._first is None:
            self._first = await self.run.run_report(_limited(self.run.request, seconds))
        return self._first

    async def _compared(self, fixer: Fixer, edit: MemoryEdit, tried: TriedEdit) -> TriedEdit | None:
        """The edit with what came of the comparison; None for one that fails, or that was to keep the results.

        It has as long as is left, and at least some seconds: an edit that needs less is worth them.
        """
        from fuselight_server.fixes.verification.patches import patch_of, verify_patch  # noqa: PLC0415 - the same

        self.run.show(f"comparing the results with {edit.title}")
        begun = time.monotonic()
        seconds = max(self.until - begun, _COMPARE_SECONDS)
        parts = await self._parts(seconds)
        patch = patch_of(
            {edit.path: edit.text}, {edit.path: self.outcome.sources.text_or_none(edit.path) or ""}, ()
        )
        verdicts = [
            await self.run.token.run(
                verify_patch(
                    fixer,
                    replace(part, request=_limited(part.request, seconds)),
                    report,
                    patch,
                    has_further_calls=False,
                )
            )
            for part, report in parts
        ]
        worst = next((verdict for kind in _WORST_FIRST for verdict in verdicts if verdict.kind is kind), None)
        is_over = time.monotonic() - begun >= seconds
        return with_verdict(tried, worst, has_gradients=self._has_gradients(), is_over=is_over)

    def _has_gradients(self) -> bool:
        """Whether the calls that are compared are those of a training step, if that is what was estimated."""
        before = self.before
        return not before.training or before.call == "__main__" or "train=True" in before.call


def _limited(request: RequestT, seconds: float) -> RequestT:
    """The request with a limit of time that is no longer than `seconds`."""
    limit = request.limits.seconds
    limits = replace(request.limits, seconds=min(limit, seconds) if limit else seconds)
    return replace(request, limits=limits)


def _name(edit: MemoryEdit) -> str:
    return f"{edit.title} on line {edit.line}"


def _less(before: MemoryEstimate, saving: MemorySaving) -> int:
    """The bytes that a change takes off a peak."""
    pairs = ((before.eager, saving.eager), (before.compiled, saving.compiled))
    return max((old.bytes - new for old, new in pairs if old is not None and new is not None), default=0)


_MADE = frozenset({MemoryUse.TEMPORARY, MemoryUse.OUTPUT, MemoryUse.SAVED})


def needs_less(before: MemoryEstimate, after: MemoryEstimate, *, gain: float = LEAST_GAIN) -> bool:
    """Whether one form needs less by a part of `gain`, and the other one no more."""
    parts = [
        (new.bytes - old.bytes) / old.bytes
        for old, new in ((before.eager, after.eager), (before.compiled, after.compiled))
        if old is not None and new is not None and old.bytes
    ]
    forms = [(before.eager, after.eager), (before.compiled, after.compiled)]
    is_lost = any(old is not None and new is None for old, new in forms)
    return (
        not is_lost
        and any(part <= -gain for part in parts)
        and all(part < max(gain, _EQUAL) for part in parts)
    )


def with_verdict(
    tried: TriedEdit, verdict: PatchVerdict | None, *, has_gradients: bool, is_over: bool = False
) -> TriedEdit | None:
    """The edit with what came of the comparison; `verdict`: None where nothing that is compared runs the line.

    None for an edit that fails, or that has other results although it is not one of the dtype. `is_over`: whether the
    comparison was ended by its limit of time, which is then why there is no result.
    """
    if is_over and (verdict is None or verdict.kind not in {VerdictKind.SAME, VerdictKind.DIFFERS}):
        return replace(tried, words=_OVER)
    if verdict is None:
        return replace(tried, words=_NOT_RUN)
    words = verdict.comparison.words
    if verdict.kind is VerdictKind.SAME:
        is_known = has_gradients
        results = EditResults.SAME if is_known else EditResults.UNKNOWN
        return replace(tried, results=results, words=words if is_known else _NO_GRADIENTS)
    if verdict.kind is VerdictKind.DIFFERS and tried.kind is EditKind.NARROW:
        return replace(tried, results=EditResults.CHANGE, words=words)
    return replace(tried, words=words) if verdict.kind is VerdictKind.UNVERIFIED else None
