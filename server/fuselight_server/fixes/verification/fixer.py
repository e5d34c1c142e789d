"""Tries the remedies of findings: each is run and compared with the text before it, for the terminal and the editor.

Invariant: a fix that passed was compiled and compared on top of those before it, for the target of its finding and for
each other known target that runs a changed file. Nothing is written here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from fuselight.shared.report import Report
from fuselight_server.base.files import split_text
from fuselight_server.base.finding import Finding, SourceLine
from fuselight_server.base.formatting import format_lines, format_target
from fuselight_server.explain.findings import apply_ignores, findings
from fuselight_server.explain.findings.common.counts import Counts, counts
from fuselight_server.fixes.rewrites.families import FixClass, Remedy, Rewrites, rewrites
from fuselight_server.fixes.syntax.refusals import RefusedRewrite
from fuselight_server.fixes.verification.attempts import Attempt, FixStatus, effect
from fuselight_server.fixes.verification.comparison import (
    TextComparison,
    compare_calls,
    compare_further,
    end,
    join,
    limit,
)
from fuselight_server.fixes.verification.comparison_runs import ComparisonRuns, FixTarget
from fuselight_server.fixes.verification.fixed_texts import FixedTexts
from fuselight_server.fixes.verification.progress import CompileProgress
from fuselight_server.fixes.verification.reach import may_run
from fuselight_server.fixes.verification.remedy_list import helping_trial, refused_in_a_trial
from fuselight_server.fixes.verification.unrun_lines import lines_not_run
from fuselight_server.fixes.verification.verdict import remedy_verdict
from fuselight_server.fixes.verification.whole_programs import WholePrograms
from fuselight_server.source.document import read_source
from fuselight_server.source.line_map import LineMap
from fuselight_server.source.reading import Reading

_MAX_FIXES = 200
"""Most fixes of one target: a remedy that brings its own finding back must end."""
CASE_SECONDS = 20.0
"""Time for the further calls of one text in one round."""
MAX_ROUNDS = 30
"""Rounds of further calls of one change: one or two are enough, unless calls take seconds."""
MAX_COMPILED = 8
"""Further calls of one change that are compiled if nothing is written: there may be 60, of about 1 CPU-second each."""
_LINE_NUMBER = re.compile(r"(?<=\bline )\d+")
_Trial = tuple[object, ...]
"""A finding in the file as it was read, the text of its line now, and the kind and the title of a remedy."""


_KEEPING = frozenset({FixClass.EXACT, FixClass.EQUAL})
"""Classes that are tried first: after a change of random numbers, calls can be compared less well."""


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
        case_seconds: float = CASE_SECONDS,
        most_rounds: int = MAX_ROUNDS,
        most_compiled: int | None = None,
        on_verdict: Callable[[Attempt], None] = lambda _attempt: None,
    ) -> None:
        """`read` gives the text of a file before any fix, `obstacle` why a remedy cannot be applied to its files.

        `readings`: the files whose ignore comments count. `folder`: an empty one for the results of runs.
        `inductor`: whether compiled calls run the code of Inductor, which takes longer. `case_seconds`: time for the
        further calls of one text in each round, of which there are `most_rounds`; what is not compared then lowers the
        class of a fix. `most_compiled`: how many of the further calls of one change are compiled, None for all; what is
        left out is named in the same way. `on_verdict` gets each attempt as soon as its result is known, and
        before that when the calls of the inputs have passed (`is_checking`).
        """
        self.attempts: list[Attempt] = []
        self.texts = FixedTexts(read)
        self.runs = ComparisonRuns(
            self.texts, folder, inductor=inductor, case_seconds=case_seconds, most_compiled=most_compiled
        )
        self.programs = WholePrograms(self.texts, self.findings_after, self.progress)
        self._obstacle = obstacle
        self._most_rounds = most_rounds
        self._on_verdict = on_verdict
        self._base_readings = readings
        self._runs: list[tuple[FixTarget, Report]] = []
        """The targets so far, with their last reports."""

    def add_target(self, target: FixTarget, report: Report) -> None:
        """Add a target whose calls must stay the same as well, or its report of the texts so far."""
        self._runs = [run for run in self._runs if run[0] is not target]
        self._runs.append((target, report))

    def known_report(self, target: FixTarget) -> Report | None:
        """The last report of a target."""
        return next((report for known, report in self._runs if known is target), None)

    def candidates(self, finding: Finding, report: Report) -> tuple[Remedy, ...]:
        """The remedies of a finding, the best first, not verified."""
        return self.rewrites(finding, report).remedies

    def rewrites(self, finding: Finding, report: Report, others: Iterable[Report] = ()) -> Rewrites:
        """The remedies of a finding, and the rewrites that are not offered; `others`: further targets that ran."""
        known = (*(known for _, known in self._runs), *others)
        return rewrites(finding, report, self.texts.text, known)

    def findings(self, report: Report) -> tuple[Finding, ...]:
        """The findings of a report of the texts so far, without those that a comment silences."""
        return self.findings_after(report, {})

    def findings_after(self, report: Report, texts: Mapping[str, str]) -> tuple[Finding, ...]:
        """The findings of a report of the texts so far with further changed ones, as `fuselight check` words them."""
        shown = findings(report, read_line=self.texts.line_reader(texts))
        return apply_ignores(shown, self.readings(self.texts.after(texts)))

    def readings(self, texts: Mapping[str, str]) -> dict[str, Reading]:
        """What static reading knows of the files, with changed texts."""
        return {**self._base_readings, **{path: read_source(path, text) for path, text in texts.items()}}

    async def fix(self, target: FixTarget, report: Report, options: FixOptions) -> Report:
        """Keep each remedy of the target's findings that passes; returns the report of the last text."""
        tried: dict[_Trial, Attempt] = {}
        last, older, classes = report, list[_Trial](), _KEEPING
        for _ in range(_MAX_FIXES):
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
        self.add_target(target, last)
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
                as_read = self.as_read(finding)
                key = (*as_read.identity_in_target, self._line(finding), remedy.kind, remedy.title)
                if key in tried or remedy.fix_class not in classes:
                    continue
                if remedy.fix_class not in options.classes:
                    attempt = self._skipped(finding, remedy)
                else:
                    target.show(f"{remedy.title} on line {as_read.span.line}")
                    attempt = await self.attempt(target, finding, remedy, report)
                tried[key] = attempt
                self.attempts.append(attempt)
                if attempt.report is not None and attempt.fix_class not in options.classes:
                    attempt.status, attempt.report = FixStatus.REFUSED, None
                    attempt.why = f"it is not exact: {attempt.why}"
                if not attempt.is_skipped:
                    self._on_verdict(attempt)
                if attempt.report is not None:
                    self.texts.changed.update(remedy.texts)
                    self.runs.forget_results()
                    return attempt.report
        return None

    def _skipped(self, finding: Finding, remedy: Remedy) -> Attempt:
        if remedy.fix_class is FixClass.CHANGES:
            why = f"changes behavior ({remedy.changes}): allow changes of behavior"
        else:
            why = "only exact fixes are tried"
        as_read = self.as_read(finding)
        return Attempt(finding, as_read.span.line, remedy, FixStatus.SKIPPED, why, as_read=as_read)

    async def attempt(self, target: FixTarget, finding: Finding, remedy: Remedy, report: Report) -> Attempt:
        """Verify a remedy with the calls of the inputs, and if it passes with further ones.

        `report`: that of the texts so far. They stay as they are.
        """
        first = await self.first_attempt(target, finding, remedy, report)
        if not first.has_passed:
            return first
        self._on_verdict(first)
        return await self.completed(target, first)

    async def first_attempt(
        self, target: FixTarget, finding: Finding, remedy: Remedy, report: Report
    ) -> Attempt:
        """Verify a remedy with the calls of the inputs.

        That is done for the target, and for other targets that run a file which the remedy changes.
        """
        as_read = self.as_read(finding)
        refused = Attempt(finding, as_read.span.line, remedy, FixStatus.REFUSED, "", as_read=as_read)
        obstacle = self._obstacle(remedy)
        if obstacle:
            return dataclasses.replace(refused, why=obstacle)
        if why := refused_in_a_trial(finding, remedy):
            return dataclasses.replace(refused, why=why, is_of_trial=True)
        new = await self.runs.verified(target, remedy)
        progress = self.progress(report, new, remedy)
        verdict = remedy_verdict(
            remedy,
            finding,
            before=self.findings(report),
            after=self.findings_after(new, remedy.texts),
            progress=progress,
            is_tried=helping_trial(finding, remedy) is not None,
        )
        comparison = compare_calls(remedy, progress.compared)
        if not verdict.passed:
            return dataclasses.replace(refused, why=verdict.words, notes=comparison.notes)
        if not remedy.is_setting:
            comparison = await self._with_others(target, remedy, comparison)
        before, after = counts(report), counts(new)
        attempt = dataclasses.replace(
            refused,
            status=FixStatus.PASSED,
            graphs=(before.graphs, after.graphs),
            report=new,
            effect=effect(before, after, progress.traced),
            next=verdict.next,
            is_checking=True,
        )
        attempt = attempt.with_comparison(comparison)
        return await self.programs.judge(target, attempt) if attempt.has_passed else attempt

    def progress(self, before: Report, after: Report, remedy: Remedy) -> CompileProgress:
        """What a remedy changes between the reports of the texts so far and of those with it."""
        lines = {
            path: LineMap.between(self.texts.text(path) or "", text) for path, text in remedy.texts.items()
        }
        return CompileProgress(before, after, lines, lambda caused: self._as_read_before(caused, remedy))

    async def _with_others(
        self, target: FixTarget, remedy: Remedy, comparison: TextComparison
    ) -> TextComparison:
        """The comparison with the calls of other targets that may run what the remedy changes.

        A setting holds for code that no edit shows: if it changes what another target compiles, the further calls of
        that target are compared, too.
        """
        for other, known in self._runs:
            if other is target or not comparison.has_passed or not self._is_concerned(known, remedy):
                continue
            new = await self.runs.verified(other, remedy)
            calls = compare_calls(remedy, new)
            if remedy.is_setting and _compiled(new) != _compiled(known):
                calls = await self.compare_rounds(other, remedy, calls)
            name = format_target(other.request.target.name)
            joined = join(remedy, comparison, calls)
            words = joined.words if calls.has_passed else f"for the target {name}: {calls.words}"
            comparison = dataclasses.replace(joined, words=words)
        return comparison

    async def completed(self, target: FixTarget, first: Attempt) -> Attempt:
        """Compare the further calls of the target for a remedy that passed the calls of the inputs."""
        attempt = first
        while attempt.is_checking:
            attempt = await self.next_round(target, attempt)
        return attempt

    async def next_round(self, target: FixTarget, attempt: Attempt) -> Attempt:
        """Compare one round of further calls for a remedy that has passed so far."""
        comparison = await self.compare_round(target, attempt.remedy, attempt.comparison)
        is_checking = comparison.has_passed and bool(comparison.left)
        if comparison.has_passed and not is_checking and attempt.remedy.is_setting:
            comparison = await self._with_others(target, attempt.remedy, comparison)
        if comparison.has_passed and not is_checking:
            lines = {line.line for unrun in self.lines_not_run(attempt.remedy, comparison) for line in unrun}
            unrun_words = f"no ordinary call ran {format_lines(lines)}" if lines else ""
            for words in (unrun_words, attempt.remedy.caveat):
                comparison = limit(attempt.remedy, comparison, words)
        return dataclasses.replace(attempt, is_checking=is_checking).with_comparison(comparison)

    async def compare_rounds(
        self, target: FixTarget, remedy: Remedy, comparison: TextComparison
    ) -> TextComparison:
        """Add rounds of further calls until one refuses the change or leaves nothing."""
        while comparison.has_passed and (comparison.left or not comparison.rounds):
            comparison = await self.compare_round(target, remedy, comparison)
        return comparison

    async def compare_round(
        self, target: FixTarget, remedy: Remedy, comparison: TextComparison
    ) -> TextComparison:
        """Add a round of further calls to a comparison that has passed. The last one leaves nothing."""
        report = await self.runs.further(target, remedy, comparison.reached)
        comparison = compare_further(remedy, comparison, report)
        return comparison if comparison.rounds < self._most_rounds else end(remedy, comparison)

    def lines_not_run(
        self, remedy: Remedy, comparison: TextComparison
    ) -> tuple[tuple[SourceLine, ...], tuple[SourceLine, ...]]:
        """The changed lines of the new and of the old text that no compared call ran."""
        old = {path: self.texts.text(path) or "" for path in remedy.texts}
        return lines_not_run(old, remedy.texts, comparison.verifications)

    def _is_concerned(self, known: Report, remedy: Remedy) -> bool:
        """Whether a target may run what a remedy changes. One that fails already has nothing to keep."""
        return known.inputs is not None and not known.failures and self.may_be_changed(known, remedy)

    def may_be_changed(self, known: Report, remedy: Remedy) -> bool:
        """Whether a target may run what a remedy changes; `known`: its report of the texts so far."""
        if not remedy.texts.keys() & known.files.keys():
            return False
        texts = {path: text for path in known.files if (text := self.texts.text(path)) is not None}
        return may_run(known.target.name, texts, remedy.texts)

    def as_read(self, finding: Finding) -> Finding:
        """The finding with its place in the file as it was read."""
        path, line, column = finding.span.path, finding.span.line, finding.span.column
        before = self.texts.read(path)
        if path not in self.texts.changed or before is None:
            return finding
        line = LineMap.between(self.texts.changed[path], before).places(line)[0]
        old, new = (
            text.encode("utf-8", "surrogatepass") for text in (_line_of(before, line), self._line(finding))
        )
        if column is not None and not old.startswith(new[:column]) and old.endswith(new[column:]):
            column += len(old) - len(new)  # a fix has changed the line before it
        moved = _at_line(finding, line)
        return dataclasses.replace(moved, span=dataclasses.replace(moved.span, column=column))

    def refusal_as_read(self, finding: Finding, refusal: RefusedRewrite) -> RefusedRewrite:
        """A refusal for a finding of the texts so far with the lines of the file as it was read."""
        path, before = finding.span.path, self.texts.read(finding.span.path)
        if path not in self.texts.changed or before is None:
            return refusal
        lines = LineMap.between(self.texts.changed[path], before)
        title, reason = (
            _LINE_NUMBER.sub(lambda number: str(lines.places(int(number[0]))[0]), text)
            for text in (refusal.title, refusal.reason)
        )
        return dataclasses.replace(refusal, title=title, reason=reason)

    def _as_read_before(self, finding: Finding, remedy: Remedy) -> Finding:
        """A finding of the new text with its lines in the file as it was read."""
        path = finding.span.path
        if path not in remedy.texts:
            return self.as_read(finding)
        lines = LineMap.between(remedy.texts[path], self.texts.read(path) or "")
        return _at_line(finding, lines.places(finding.span.line)[0])

    def _line(self, finding: Finding) -> str:
        """The source line of a finding, which moves with edits above it."""
        return _line_of(self.texts.text(finding.span.path) or "", finding.span.line)


def _line_of(text: str, number: int) -> str:
    lines = split_text(text)
    return lines[number - 1] if 0 < number <= len(lines) else str(number)


def _compiled(report: Report) -> tuple[Counts, list[tuple[tuple[str | None, ...], int | None]]]:
    """What a target compiles, whatever its lines are: a break that a setting removes may give way to a later one."""
    return counts(report), [(graph_break.ids, graph_break.operators) for graph_break in report.breaks]


def _at_line(finding: Finding, line: int) -> Finding:
    span = finding.span
    end_line = None if span.end_line is None else span.end_line + line - span.line
    return dataclasses.replace(finding, span=dataclasses.replace(span, line=line, end_line=end_line))
