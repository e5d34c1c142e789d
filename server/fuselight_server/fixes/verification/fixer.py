"""Tries the remedies of findings: each is run and compared with the text before it, for the terminal and the editor.

Invariant: a fix that passed was compiled and compared on top of those before it, for the target of its finding and for
each other known target that runs a changed file. Nothing is written here.
"""

from __future__ import annotations

import dataclasses
import enum
import shutil
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fuselight.shared.protocol import VerifyRequest
from fuselight.shared.report import Verification
from fuselight.shared.report.verification import ONE_SIDE
from fuselight_server.base.files import split_text
from fuselight_server.base.formatting import format_list
from fuselight_server.execution.runs.planning import MAIN, with_texts
from fuselight_server.explain.findings import apply_ignores, findings
from fuselight_server.explain.findings.common.counts import counts
from fuselight_server.fixes.rewrites.families import FixClass, rewrites
from fuselight_server.fixes.verification.case_policy import exception_words
from fuselight_server.fixes.verification.reach import may_run
from fuselight_server.fixes.verification.verdict import (
    Verdict,
    judge,
    judge_calls,
    judge_cases,
    memory_notes,
    result_words,
)
from fuselight_server.source.document import read_source
from fuselight_server.source.line_map import LineMap

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from fuselight.shared.protocol import RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.explain.findings.common.counts import Counts
    from fuselight_server.fixes.rewrites.families import Remedy, Rewrites
    from fuselight_server.fixes.verification.case_policy import CaseException
    from fuselight_server.source.reading import Reading

_MOST_FIXES = 200
"""Most fixes of one target: a remedy that brings its own finding back must end."""
_MOST_RECORDS = 16
"""Results of old texts that are kept on the disk."""


_LONGER = 2.0
"""How much longer than the old text the new one may take for its further calls."""
_SHOWN_CASES = 3
"""Most cases that a note names."""
_Trial = tuple[str, str, str, str]
"""Code, file and text of the line of a finding, and the kind of the remedy."""


_KEEPING = frozenset({FixClass.EXACT, FixClass.EQUAL})
"""Classes that are tried first: after a change of random numbers, calls can be compared less well."""


class FixStatus(enum.Enum):
    """What became of a remedy."""

    PASSED = "passed"
    """Verified; without `--write` no file has changed."""
    WRITTEN = "written"
    REFUSED = "refused"
    SKIPPED = "skipped"
    """Not tried: it changes behavior."""
    NOT_WRITTEN = "not written"


@dataclass
class Attempt:
    """One remedy of one finding, and its result."""

    finding: Finding
    line: int
    """Line of the finding in the file as it was read."""
    remedy: Remedy
    status: FixStatus
    why: str
    """Why it passed or not."""
    graphs: tuple[int, int] | None = None
    """Graphs of the target before and after it."""
    notes: tuple[str, ...] = ()
    """What was not compared, and why."""
    report: Report | None = None
    """Of the new text, if it passed."""
    effect: str = ""
    """What it changes of the target: `3 → 1 graphs`; empty if no count changes."""
    fix_class: FixClass = FixClass.CHANGES
    """The class that it earned: that of the remedy, or equal where an exact one rounds or has exceptions."""
    exceptions: tuple[CaseException, ...] = ()
    """Cases in which results differ, which `why` names."""
    tried: tuple[str, ...] = ()
    """Further calls that were compared."""
    not_accepted: tuple[str, ...] = ()
    """Further calls that the target refuses with an exception."""
    not_reached: tuple[str, ...] = ()
    """Further calls for which there was no time."""
    is_checking: bool = False
    """Whether further calls are still to be compared."""

    @property
    def excepted(self) -> tuple[str, ...]:
        """The families of its exceptions."""
        return tuple(dict.fromkeys(exception.family for exception in self.exceptions))

    @property
    def has_passed(self) -> bool:
        """Whether it may be offered."""
        return self.report is not None

    @property
    def is_one_sided(self) -> bool:
        """Whether a side of a branch was not compared."""
        return any(note.endswith(ONE_SIDE) for note in self.notes)

    @property
    def refusal(self) -> str:
        """Why a fix that was tried is not offered."""
        return f"tried and refused: {self.why}"

    @property
    def promise(self) -> str:
        """`Use torch.where: verified`, and what limits that."""
        limits = (
            "changes behavior" if self.remedy.fix_class is FixClass.CHANGES else "",
            exception_words(self.exceptions),
            "one side not tried" if self.is_one_sided else "",
        )
        return f"{self.remedy.title}: {', '.join(('verified', *filter(None, limits)))}"


@dataclass(frozen=True)
class FixOptions:
    """What to fix."""

    select: tuple[str, ...] = ()
    """Codes, or the start of codes; empty for all."""
    classes: frozenset[FixClass] = _KEEPING
    """Classes of fixes that are tried."""

    def takes(self, finding: Finding) -> bool:
        """Whether a finding is selected."""
        return self.selects(finding.code)

    def selects(self, code: str) -> bool:
        """Whether findings of a code are selected."""
        return not self.select or code.startswith(self.select)


class FixTarget(Protocol):
    """A target, and the worker that runs it."""

    @property
    def request(self) -> RunRequest:
        """The run of the text before any fix."""
        ...

    @property
    def show(self) -> Callable[[str], None]:
        """Shows progress."""
        ...

    async def report(self, request: RunRequest) -> Report:
        """The report of a run, also of one that failed."""
        ...


class Fixer:
    """The texts with the fixes that have passed so far, and what was tried."""

    def __init__(
        self,
        *,
        read: Callable[[str], str | None],
        obstacle: Callable[[Remedy], str],
        readings: Mapping[str, Reading],
        folder: str,
        inductor: bool = False,
        case_seconds: float = 20.0,
    ) -> None:
        """`read` gives the text of a file before any fix, `obstacle` why a remedy cannot be applied to its files.

        `readings`: the files whose ignore comments count. `folder`: an empty one for the results of runs.
        `inductor`: whether compiled calls run the code of Inductor, which takes longer. `case_seconds`: time for the
        further calls of one text.
        """
        self.attempts: list[Attempt] = []
        self.texts: dict[str, str] = {}
        """The texts with fixes, by path."""
        self._read = read
        self._obstacle = obstacle
        self._base_readings = readings
        self._runs: list[tuple[FixTarget, Report]] = []
        """The targets so far, with their last reports."""
        self._folder = folder
        self._inductor = inductor
        self._case_seconds = case_seconds
        self._cases: dict[tuple[str, bool], str] = {}
        """The folders of `_records` that have the further calls (True: those of settings), and why there are none."""
        self._records: dict[object, tuple[str, Report]] = {}
        """Results of the texts so far; none of older texts."""

    def text(self, path: str) -> str | None:
        """The text of a file with the fixes so far; None if it cannot be read."""
        return self.texts[path] if path in self.texts else self._read(path)

    def request(self, target: FixTarget) -> RunRequest:
        """The run of the texts so far."""
        return self.request_with(target, {})

    def request_with(self, target: FixTarget, texts: Mapping[str, str]) -> RunRequest:
        """The run of the texts so far, with further changed texts."""
        return with_texts(target.request, {**self.texts, **texts})

    def add(self, target: FixTarget, report: Report) -> None:
        """Add a target whose calls must stay the same as well, or its report of the texts so far."""
        self._runs = [run for run in self._runs if run[0] is not target]
        self._runs.append((target, report))

    def known_report(self, target: FixTarget) -> Report | None:
        """The last report of a target."""
        return next((report for known, report in self._runs if known is target), None)

    def candidates(self, finding: Finding, report: Report) -> tuple[Remedy, ...]:
        """The remedies of a finding, the best first, not verified."""
        return self.rewrites(finding, report).remedies

    def rewrites(self, finding: Finding, report: Report) -> Rewrites:
        """The remedies of a finding, and the rewrites that are not offered."""
        return rewrites(finding, report, self.text)

    def findings(self, report: Report) -> tuple[Finding, ...]:
        """The findings of a report of the texts so far, without those that a comment silences."""
        return apply_ignores(findings(report), self.readings(self.texts))

    def readings(self, texts: Mapping[str, str]) -> dict[str, Reading]:
        """What static reading knows of the files, with changed texts."""
        return {**self._base_readings, **{path: read_source(path, text) for path, text in texts.items()}}

    async def fix(self, target: FixTarget, report: Report, options: FixOptions) -> Report:
        """Keep each remedy of the target's findings that passes; returns the report of the last text."""
        tried: dict[_Trial, Attempt] = {}
        last, older, classes = report, list[_Trial](), _KEEPING
        for _ in range(_MOST_FIXES):
            fixed = await self._next_fix(target, last, options, classes, tried)
            if fixed is not None:
                last = fixed
                older = [key for key, attempt in tried.items() if attempt.status is FixStatus.REFUSED]
                continue
            for key in older:  # a fix may need one that passed after it was refused
                self.attempts.remove(tried.pop(key))
            if not older and classes is not _KEEPING:
                break
            classes = classes if older else frozenset(FixClass)
            older = []
        self.add(target, last)
        return last

    async def _next_fix(
        self,
        target: FixTarget,
        report: Report,
        options: FixOptions,
        classes: frozenset[FixClass],
        tried: dict[_Trial, Attempt],
    ) -> Report | None:
        """Try remedies of some classes until one passes, and keep its texts.

        Returns the report of the new text, None if none passes.
        """
        for finding in self.findings(report):
            if not options.takes(finding):
                continue
            for remedy in self.candidates(finding, report):
                key = (finding.code, finding.span.path, self._line(finding), remedy.kind)
                if key in tried or remedy.fix_class not in classes:
                    continue
                if remedy.fix_class not in options.classes:
                    attempt = self._skipped(finding, remedy)
                else:
                    target.show(f"{remedy.title} on line {finding.span.line}")
                    attempt = await self.attempt(target, finding, remedy, report)
                tried[key] = attempt
                self.attempts.append(attempt)
                if attempt.report is not None and attempt.fix_class not in options.classes:
                    attempt.status, attempt.report = FixStatus.REFUSED, None
                    attempt.why = f"it is not exact: {attempt.why}"
                if attempt.report is not None:
                    self.texts.update(remedy.texts)
                    self.forget_results()
                    return attempt.report
        return None

    def _skipped(self, finding: Finding, remedy: Remedy) -> Attempt:
        if remedy.fix_class is FixClass.CHANGES:
            why = f"changes behavior ({remedy.changes}): allow it with --allow-behavior-changes"
        else:
            why = "only exact fixes are tried"
        return Attempt(finding, self._line_read(finding), remedy, FixStatus.SKIPPED, why)

    async def attempt(self, target: FixTarget, finding: Finding, remedy: Remedy, report: Report) -> Attempt:
        """Verify a remedy with the calls of the inputs, and if it passes with further ones.

        `report`: that of the texts so far. They stay as they are.
        """
        first = await self.first_attempt(target, finding, remedy, report)
        return await self.completed(target, first) if first.has_passed else first

    async def first_attempt(
        self, target: FixTarget, finding: Finding, remedy: Remedy, report: Report
    ) -> Attempt:
        """Verify a remedy with the calls of the inputs.

        That is done for the target, and for other targets that run a file which the remedy changes.
        """
        line = self._line_read(finding)
        obstacle = self._obstacle(remedy)
        if obstacle:
            return Attempt(finding, line, remedy, FixStatus.REFUSED, obstacle)
        new = await self.verified(target, remedy)
        lines = {path: LineMap.between(self.text(path) or "", text) for path, text in remedy.texts.items()}
        verdict = judge(
            remedy,
            finding,
            before=self.findings(report),
            after=apply_ignores(findings(new), self.readings({**self.texts, **remedy.texts})),
            report=new,
            lines=lines,
        )
        others = [
            fix_target
            for fix_target, known in self._runs
            if fix_target is not target and self._is_concerned(known, remedy)
        ]
        for other in others if verdict.passed else ():
            calls = judge_calls(remedy, await self.verified(other, remedy))
            if not calls.passed:
                name = other.request.target.name or MAIN
                verdict = Verdict(passed=False, words=f"for the target {name}: {calls.words}")
                break
        notes = new.verification.notes if new.verification is not None else ()
        if not verdict.passed:
            return Attempt(finding, line, remedy, FixStatus.REFUSED, verdict.words, notes=notes)
        before, after = counts(report), counts(new)
        notes = (*notes, *(f"{remedy.title} on line {line}: {words}" for words in memory_notes(new)))
        return Attempt(
            finding,
            line,
            remedy,
            FixStatus.PASSED,
            verdict.words,
            (before.graphs, after.graphs),
            notes,
            report=new,
            effect=effect(before, after),
            fix_class=_earned(remedy, verdict),
            exceptions=verdict.exceptions,
            is_checking=True,
        )

    async def completed(self, target: FixTarget, first: Attempt) -> Attempt:
        """Compare the further calls of the target for a remedy that passed the calls of the inputs."""
        remedy = first.remedy
        report = await self.further(target, remedy)
        verdict = judge_cases(remedy, report)
        verification = report.verification or Verification()
        tried = tuple(dict.fromkeys(comparison.values for comparison in verification.comparisons))
        notes = tuple(dict.fromkeys((*first.notes, *verification.notes)))
        if verification.not_reached:
            notes = (*notes, f"not compared, as the time ended: {_shown_cases(verification.not_reached)}")
        if not verdict.passed:
            return with_attempt_refused(dataclasses.replace(first, tried=tried, notes=notes), verdict.words)
        exceptions = tuple(dict.fromkeys((*first.exceptions, *verdict.exceptions)))
        lowered = first.fix_class is FixClass.EXACT and (exceptions or verdict.rounds)
        return dataclasses.replace(
            first,
            why=result_words(remedy, exceptions),
            fix_class=FixClass.EQUAL if lowered else first.fix_class,
            exceptions=exceptions,
            tried=tried,
            not_accepted=verification.not_accepted,
            not_reached=verification.not_reached,
            notes=notes,
            is_checking=False,
        )

    async def further(self, target: FixTarget, remedy: Remedy) -> Report:
        """The report of the further calls of the new text, compared with those of the texts so far."""
        is_special = remedy.fix_class is FixClass.EQUAL
        changed = {path: self.text(path) or "" for path in remedy.texts}
        before = {**self.texts, **changed}
        folder, recorded = await self._recorded(target, before, is_special=is_special)
        settings = remedy.is_setting
        key = folder, settings
        if key not in self._cases:
            asked = self._asked_cases(target, before, folder, records=True, settings=settings)
            old = await target.report(asked)
            self._cases[key] = old.verification.refused if old.verification is not None else ""
        if self._cases[key]:
            note = f"no further calls were compared: {self._cases[key]}"
            return dataclasses.replace(recorded, failures=(), verification=Verification(notes=(note,)))
        new = {**self.texts, **remedy.texts}
        asked = self._asked_cases(target, new, folder, records=False, settings=settings)
        return await target.report(asked)

    def _asked_cases(
        self, target: FixTarget, texts: Mapping[str, str], folder: str, *, records: bool, settings: bool
    ) -> RunRequest:
        return with_texts(target.request, texts).of_kind(
            VerifyRequest,
            folder=folder,
            inductor=self._inductor,
            records=records,
            cases=True,
            settings=settings,
            seconds=self._case_seconds * (1.0 if records else _LONGER),
            automatic=True,
        )

    def _is_concerned(self, known: Report, remedy: Remedy) -> bool:
        """Whether a target may run what a remedy changes. One that fails already has nothing to keep."""
        return known.inputs is not None and not known.failures and self.may_be_changed(known, remedy)

    def may_be_changed(self, known: Report, remedy: Remedy) -> bool:
        """Whether a target may run what a remedy changes; `known`: its report of the texts so far."""
        if not remedy.texts.keys() & known.files.keys():
            return False
        texts = {path: text for path in known.files if (text := self.text(path)) is not None}
        return may_run(known.target.name, texts, remedy.texts)

    async def verified(self, target: FixTarget, remedy: Remedy) -> Report:
        """The report of the new text, compared with the texts so far."""
        is_special = remedy.fix_class is FixClass.EQUAL
        changed = {path: self.text(path) or "" for path in remedy.texts}
        folder, recorded = await self._recorded(target, {**self.texts, **changed}, is_special=is_special)
        verification = recorded.verification
        if verification is None:
            why = recorded.failures[0].message if recorded.failures else "it gave no results"
            refused = Verification(refused=f"the text without the fix fails: {why}")
            return dataclasses.replace(recorded, failures=(), verification=refused)
        if verification.refused:
            return dataclasses.replace(recorded, failures=())
        new = with_texts(target.request, {**self.texts, **remedy.texts})
        asked = new.of_kind(
            VerifyRequest, folder=folder, inductor=self._inductor, non_finite=is_special, automatic=True
        )
        report = await target.report(asked)
        notes = report.verification.notes if report.verification is not None else ()
        if report.verification is None or not verification.notes:
            return report
        both = tuple(dict.fromkeys((*verification.notes, *notes)))
        return dataclasses.replace(report, verification=dataclasses.replace(report.verification, notes=both))

    async def recorded_report(self, target: FixTarget) -> Report:
        """The report of the texts so far, with the calls that a remedy is compared on."""
        return (await self._recorded(target, self.texts, is_special=False))[1]

    async def _recorded(
        self, target: FixTarget, texts: Mapping[str, str], *, is_special: bool
    ) -> tuple[str, Report]:
        """The folder with the results of the texts so far, and the report of the run that wrote them."""
        request = target.request
        changed = sorted((path, text) for path, text in texts.items() if text != self._read(path))
        key = (request.target, request.changes, tuple(changed), is_special)
        if key not in self._records:
            folder = tempfile.mkdtemp(dir=self._folder)
            asked = with_texts(target.request, texts).of_kind(
                VerifyRequest,
                folder=folder,
                inductor=self._inductor,
                records=True,
                non_finite=is_special,
                automatic=True,
            )
            try:
                self._records[key] = folder, await target.report(asked)
            except BaseException:  # canceled, or the run was interrupted
                shutil.rmtree(folder, ignore_errors=True)
                raise
            while len(self._records) > _MOST_RECORDS:
                oldest, _ = self._records.pop(next(iter(self._records)))
                shutil.rmtree(oldest, ignore_errors=True)
        return self._records[key]

    def forget_results(self) -> None:
        """Delete the results of runs of the texts so far."""
        for folder, _ in self._records.values():
            shutil.rmtree(folder, ignore_errors=True)
        self._records.clear()
        self._cases.clear()

    def _line(self, finding: Finding) -> str:
        """The source line of a finding, which moves with edits above it."""
        lines = split_text(self.text(finding.span.path) or "")
        number = finding.span.line
        return lines[number - 1] if 0 < number <= len(lines) else str(number)

    def _line_read(self, finding: Finding) -> int:
        """The line of a finding in the file as it was read, before the fixes so far."""
        path = finding.span.path
        before = self._read(path)
        if path not in self.texts or before is None:
            return finding.span.line
        return LineMap.between(self.texts[path], before).places(finding.span.line)[0]


def with_attempt_refused(attempt: Attempt, why: str) -> Attempt:
    """The attempt after something has refused it."""
    return dataclasses.replace(
        attempt,
        status=FixStatus.REFUSED,
        why=why,
        report=None,
        graphs=None,
        effect="",
        is_checking=False,
    )


def _earned(remedy: Remedy, verdict: Verdict) -> FixClass:
    """The class of a remedy that passed: an exact one with exceptions is equal."""
    is_lowered = remedy.fix_class is FixClass.EXACT and (verdict.exceptions or verdict.rounds)
    return FixClass.EQUAL if is_lowered else remedy.fix_class


def _shown_cases(names: tuple[str, ...]) -> str:
    more = len(names) - _SHOWN_CASES
    return format_list([*names[:_SHOWN_CASES], *([f"{more} more"] if more > 0 else [])])


def effect(before: Counts, after: Counts) -> str:
    """What changes of a target: `3 → 1 graphs`, else `2 → 0 recompilations` or `1 → 0 breaks`; empty if nothing.

    A count that falls comes first: a print that moves into a graph can need one more graph to be rid of a break.
    """
    counts = (
        (before.graphs, after.graphs, "graphs"),
        (before.recompilations, after.recompilations, "recompilations"),
        (before.breaks, after.breaks, "breaks"),
    )
    changed = sorted(
        (count for count in counts if count[0] != count[1]), key=lambda count: count[1] > count[0]
    )
    return next((f"{old} → {new} {noun}" for old, new, noun in changed), "")
