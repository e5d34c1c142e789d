"""Changes that remove findings, each run and compared with the text before it.

Invariant: a fix that has passed was compiled and compared on top of those before it. Files change only where they are
to be written, each as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.report import Problem, Report
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.diff_text import TextChange, diff_folder, name_in
from fuselight_server.base.files import split_text
from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import format_target
from fuselight_server.base.remedies import FindingRemedy, RemedyState
from fuselight_server.commands.cache_fixes import CacheFixer
from fuselight_server.commands.check import shared_findings
from fuselight_server.commands.earlier_check import EarlierCheck
from fuselight_server.commands.fix_parts import fix_part, parts_of, program_attempts
from fuselight_server.commands.known_fixes import target_of
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.separate_fixes import SeparateFix, separate_fixes
from fuselight_server.commands.sources import shown_path
from fuselight_server.commands.targets import TargetRun, kept_captures, readings_of, report_each
from fuselight_server.explain.findings.priority import Priority
from fuselight_server.fixes.rewrites.families import FixClass, RefusedRewrite, Remedy
from fuselight_server.fixes.verification.attempts import Attempt, FixStatus
from fuselight_server.fixes.verification.cure_trials import SHARE
from fuselight_server.fixes.verification.file_texts import FileText
from fuselight_server.fixes.verification.fixer import MAX_COMPILED, Fixer, FixOptions
from fuselight_server.fixes.verification.notebook_texts import text_of_file
from fuselight_server.fixes.verification.remedy_list import of_attempt, of_candidate, of_refusal, with_fixes
from fuselight_server.source.reading import Reading

__all__ = ["Attempt", "FindingRefusal", "FixOutcome", "FixStatus", "FixedFiles", "fix"]


@dataclass(frozen=True)
class FindingRefusal:
    """A finding that is left, and a rewrite that is not offered for it."""

    finding: Finding
    refusal: RefusedRewrite

    @property
    def words(self) -> str:
        """`m.py:3: Use torch.where: ...`, in the line numbers of the file as it was read, as in attempts."""
        span = self.finding.span
        return f"{shown_path(span.path)}:{span.line}: {self.refusal.title}: {self.refusal.reason}"


@dataclass
class FixOutcome:
    """All attempts of the command."""

    checked: CheckOutcome
    """Findings of the files as they are at the end."""
    attempts: list[Attempt] = field(default_factory=list)
    unsolved: int = 0
    """Findings for which no remedy is known."""
    changes: tuple[TextChange, ...] = ()
    """Of all fixes that have passed, by path."""
    refusals: tuple[FindingRefusal, ...] = ()
    """Rewrites that are not offered, with the reasons."""
    findings: tuple[Finding, ...] = ()
    """Findings of the files as they were read, with what is known of each remedy."""
    left: frozenset[tuple[str, str, int]] = frozenset()
    """Code, path and line, as they were read, of the findings that the fixes that have passed leave."""
    before: dict[str, str] = field(default_factory=dict)
    """The text of each file as it was read, by path: lines of attempts are lines of it."""
    texts: dict[str, str] = field(default_factory=dict)
    """The whole text of each file with the fixes that have passed, by path."""

    @property
    def diff_folder(self) -> str:
        """The folder in which the diff of all changes applies."""
        return diff_folder(change.path for change in self.changes)

    @property
    def diff(self) -> str:
        """The unified diff of all changes, with paths in its folder."""
        folder = self.diff_folder
        return self.diff_named(lambda path: name_in(folder, path))

    def diff_named(self, name: Callable[[str], str]) -> str:
        """The unified diff of all changes, with the names of their paths."""
        return "".join(change.diff(name(change.path)) for change in self.changes)

    def separate(self, name: Callable[[str], str]) -> tuple[SeparateFix, ...]:
        """The diff of each fix that has passed, with the fixes that it needs; `name`: as in `diff_named`."""
        return separate_fixes(self.attempts, self.before, name)

    def unmatched(self, codes: Sequence[str]) -> Iterator[str]:
        """Say that no finding was asked for, which is not that none can be fixed."""
        known = sorted({finding.code for finding in self.checked.findings})
        if codes and known and not any(code.startswith(tuple(codes)) for code in known):
            asked, has = (", ".join(f"`{code}`" for code in some) for some in (codes, known))
            yield f"no finding has a code that starts with {asked}: the codes are {has}"

    def verified_fix(self, first: Priority) -> str:
        """Say which fix of the line to fix first has passed and is not written: `Use torch.where: verified`."""
        passed = (attempt for attempt in self.attempts if attempt.status is FixStatus.PASSED)
        here = (
            attempt.promise
            for attempt in passed
            if first.is_gained_by(attempt.finding.code, attempt.finding.span.path, attempt.line)
        )
        return next(here, "")


async def fix(
    options: CommandOptions,
    show: Callable[[str], None],
    token: CancelToken,
    *,
    codes: tuple[str, ...] = (),
    changes_behavior: bool = False,
    writes: bool = False,
    inductor: bool = False,
    warm: bool = False,
    tries: float | None = SHARE,
    on_verdict: Callable[[Attempt], None] = lambda _attempt: None,
    keeps_partial: bool = False,
) -> FixOutcome:
    """Run all targets, and then try the remedies of the findings of each.

    All run first, so that each fix is also verified for the targets after its own. `codes`: how the codes of the
    findings start that are fixed, none for all; `changes_behavior`: whether fixes count that change random numbers,
    output or exceptions; `inductor`: as in `Fixer`; `warm`: whether to start each target twice, too, and fix what the
    second start compiles again; `tries`, `keeps_partial`: as in `analyze`; `on_verdict`: as in `Fixer`.

    Where nothing is written, few of the further calls are compiled: the result of a change says how many are left out.
    """
    classes = FixOptions().classes | ({FixClass.CHANGES} if changes_behavior else set())
    asked = FixOptions(codes, classes)
    with owned_folder("fix") as folder:
        files = FixedFiles(
            asked,
            folder,
            writes=writes,
            inductor=inductor,
            warm=warm,
            most_compiled=None if writes else MAX_COMPILED,
            on_verdict=on_verdict,
            texts=options.texts,
            notify=options.notify,
            earlier=EarlierCheck(None if options.texts else kept_captures(options), tries),
        )
        checked = await report_each(
            *(options, show, token, files.report_of),
            after_all=files.fix_all,
            keeps_partial=keeps_partial and not writes,
        )
    outcome = FixOutcome(
        checked,
        files.attempts,
        files.unsolved,
        tuple(files.changes()),
        tuple(files.refusals),
        tuple(files.listed_findings()),
        frozenset(files.left),
        files.texts_read(),
        dict(files.fixer.texts.changed),
    )
    if not writes:
        files.earlier.keep_verified(outcome.findings)
    if writes:
        files.write(checked)
    shared_findings(checked)
    return outcome


class FixedFiles:
    """The files of the command, with the fixes that have passed so far."""

    def __init__(
        self,
        asked: FixOptions,
        folder: str,
        *,
        writes: bool,
        inductor: bool = False,
        warm: bool = False,
        most_compiled: int | None = None,
        on_verdict: Callable[[Attempt], None] = lambda _attempt: None,
        texts: Mapping[str, str] | None = None,
        notify: Callable[[str], None] = lambda _text: None,
        earlier: EarlierCheck | None = None,
    ) -> None:
        """`folder`: an empty one for the results of runs. `warm`: as in `fix`.

        `inductor`, `most_compiled`, `on_verdict`: as in `Fixer`. `texts`: as in the options. `earlier`: what an earlier
        check has tried, and what it lacks; None: nothing is tried.
        """
        self.earlier = earlier if earlier is not None else EarlierCheck(None)
        self._findings: dict[Finding, tuple[FindingRemedy, ...]] = {}
        """With the fixes that each may have and the rewrites that are refused, as a check lists them."""
        self._owners: dict[tuple[str, str], set[tuple[str, str]]] = {}
        """The programs of a part, by the files and the names of their targets."""
        self._given = texts or {}
        self._notify = notify
        self._warm = warm
        self.unsolved = 0
        self.left: set[tuple[str, str, int]] = set()
        """Code, path and line of the findings that are there after the fixes, in the files as they were read."""
        self.refusals: list[FindingRefusal] = []
        self._asked = asked
        self._writes = writes
        self._files: dict[str, FileText | None] = {}
        self._readings: dict[str, Reading] = {}
        self._targets: list[tuple[TargetRun, list[tuple[TargetRun, Report]]]] = []
        """Each target, with the runs of its calls: of itself, or of what its program compiles."""
        self._programs: list[tuple[Report, list[tuple[TargetRun, Report]]]] = []
        """Programs that are fixed by the calls of their parts: once for each target of the program."""
        self._of_programs: list[Attempt] = []
        self.fixer = Fixer(
            read=self._text,
            obstacle=self._obstacle,
            readings=self._readings,
            folder=folder,
            inductor=inductor,
            most_compiled=most_compiled,
            on_verdict=on_verdict,
        )

    @property
    def attempts(self) -> list[Attempt]:
        """All attempts so far, last those for findings that no single part of a program has."""
        return [*self.fixer.attempts, *self._of_programs]

    def read(self, outcome: CheckOutcome) -> None:
        """Let the ignore comments of the command's files count."""
        self._readings.update(outcome.readings)

    async def report_of(self, target_run: TargetRun, outcome: CheckOutcome) -> Report:
        """Report one target as it is, without the fixes so far."""
        self.read(outcome)
        # Many runs follow: the worker imports once what each of them would import again.
        target_run = replace(target_run, request=replace(target_run.request, preload=True))
        first = await self.earlier.report_of(target_run, outcome)
        parts = await parts_of(target_run, target_run.token, first, target_run.of_call)
        for other_target_run, report in parts:
            self.fixer.add_target(other_target_run, report)
            if other_target_run is not target_run and report.failures and report.inputs is None:
                self._notify(
                    f"{format_target(other_target_run.request.target.name)} is not fixed: {report.failures[0].message}"
                )
        if parts[0][0] is not target_run:
            self.fixer.programs.add(target_run, first, (part for part, _ in parts))
            self._programs.append((first, parts))
            same = {
                target_of(program)
                for program, _ in self._programs
                if program.target.path == first.target.path
            }
            for target in (*same, *(target_of(report) for _, report in parts)):
                self._owners.setdefault(target, set()).update(same)
        self._targets.append((target_run, parts))
        return first

    async def fix_all(self, outcome: CheckOutcome) -> None:
        """Fix the findings of all targets; if files are written, the outcome gets the reports after that."""
        self.refuse_program_fixes()
        for _, parts in self._targets:
            for _, first in parts:  # a fix of one part moves the lines of the others
                self._list(first, ())
        for number, (target_run, parts) in enumerate(self._targets):
            last = [await self._fixed(part, first) for part, first in parts][-1]
            if self._warm:
                await self._fix_caches(target_run, outcome)
            is_part = parts[0][0] is not target_run
            if self._writes and is_part:
                last = await target_run.run_report(self.fixer.texts.changed_request(target_run.request))
            if self._writes:
                outcome.reports[number] = last

    def refuse_program_fixes(self) -> None:
        """Refuse the fixes of findings that only a program as a whole has, once for all of its parts."""
        for path in dict.fromkeys(first.target.path for first, _ in self._programs):
            same = [(first, parts) for first, parts in self._programs if first.target.path == path]
            parts = [part for _, parts in same for part in parts]
            firsts = [first for first, _ in same]
            of_parts = {
                finding.identity_in_target for _, report in parts for finding in self.fixer.findings(report)
            }
            for first in firsts:
                of_program = self._list(first, firsts)
                self.left |= {
                    (item.code, item.span.path, item.span.line)
                    for item in of_program
                    if item.identity_in_target not in of_parts
                }
            self._of_programs += program_attempts(self.fixer, firsts, parts, self._asked)

    def _list(self, report: Report, others: Sequence[Report]) -> list[Finding]:
        """The findings of a report, which are listed with the fixes that they may have."""
        listed = list(filter(self._asked.takes, self.fixer.findings(report)))
        for finding in listed:
            known = self.fixer.rewrites(finding, report, others)
            fixes = (*map(of_candidate, known.remedies), *map(of_refusal, known.refused))
            self._findings.setdefault(finding, fixes)
        return listed

    async def _fixed(self, target_run: TargetRun, first: Report) -> Report:
        """Fix the findings of one target; returns its report of the last text."""
        fixer = self.fixer
        last = await fix_part(fixer, target_run, target_run.token, first, self._asked)
        left = [finding for finding in fixer.findings(last) if self._asked.takes(finding)]
        for finding in left:
            at = fixer.as_read(finding)
            self.left.add((at.code, at.span.path, at.span.line))
            rewrites = fixer.rewrites(finding, last)
            self.unsolved += not rewrites.remedies
            self.refusals += [
                FindingRefusal(at, fixer.refusal_as_read(at, item)) for item in rewrites.refused
            ]
        return last

    async def _fix_caches(self, target_run: TargetRun, outcome: CheckOutcome) -> None:
        """Fix what a second start of a target compiles again."""
        parts = next(parts for known, parts in self._targets if known is target_run)
        now = [(part, self.fixer.known_report(part) or report) for part, report in parts]
        if any(report.failures for _, report in now):
            return
        caches = CacheFixer(self.fixer, target_run, target_run.token, now, outcome.readings)
        await caches.fix(self._asked)
        self.unsolved += caches.unsolved
        self.refusals += [
            FindingRefusal(self.fixer.as_read(finding), refusal) for finding, refusal in caches.refused
        ]

    def listed_findings(self) -> Iterator[Finding]:
        """The findings of the files as they were read, each with its one list of remedies."""
        listed: list[Finding] = []
        for finding, fixes in self._findings.items():
            if any(self._is_same(finding, other) for other in listed):
                continue
            listed.append(finding)
            attempts = (
                attempt
                for attempt in self.attempts
                if self._is_same(finding, attempt.as_read or attempt.finding)
            )
            tried = sorted(map(of_attempt, attempts), key=lambda fix: fix.state is RemedyState.VERIFIED)
            refused = (
                of_refusal(item.refusal) for item in self.refusals if self._is_same(finding, item.finding)
            )
            known = {(fix.kind, fix.text): fix for fix in (*fixes, *tried)}  # what was verified counts
            yield with_fixes(finding, (*known.values(), *refused))

    def _is_same(self, finding: Finding, other: Finding) -> bool:
        """Whether two findings are one, of a target or of a program and a part of it."""
        targets = ((item.target_path, item.target) for item in (finding, other))
        first, second = ({target, *self._owners.get(target, ())} for target in targets)
        return finding.identity_in_target == other.identity_in_target and not first.isdisjoint(second)

    # Files

    def _file(self, path: str) -> FileText | None:
        if path not in self._files:
            self._files[path] = text_of_file(path)
        return self._files[path]

    def _text(self, path: str) -> str | None:
        if path in self._given:
            return self._given[path]
        file = self._file(path)
        return file.text if file is not None else None

    def _obstacle(self, remedy: Remedy) -> str:
        """Why the files of a remedy cannot be changed; empty if they can."""
        for path, text in remedy.texts.items():
            if path in self._given and not self._writes:
                continue
            file = self._file(path)
            why = "it cannot be read" if file is None else file.obstacle(text)
            if why:
                return f"{shown_path(path)}: {why}"
        return ""

    def texts_read(self) -> dict[str, str]:
        """The text of each file as it was read, or as it was given."""
        read = {path: file.text for path, file in self._files.items() if file is not None}
        return {
            **read,
            **{path: text for path, text in self._given.items() if path in self.fixer.texts.changed},
        }

    def changes(self) -> Iterator[TextChange]:
        """What all fixes that passed change."""
        for path in sorted(self.fixer.texts.changed):
            file, fixed = self._file(path), self.fixer.texts.changed[path]
            if file is None or path in self._given:
                yield TextChange(path, self._text(path) or "", fixed)
            else:
                yield from file.changes(fixed)

    def write(self, outcome: CheckOutcome) -> None:
        """Write the texts. Fixes that share a file with one that cannot be written are not written either."""
        passed = [attempt for attempt in self.attempts if attempt.status is FixStatus.PASSED]
        blocked = {path: why for path in self.fixer.texts.changed if (why := self._blocked(path))}
        while True:
            linked = {
                path: blocked[first]
                for attempt in passed
                if (first := next((path for path in attempt.remedy.texts if path in blocked), None))
                for path in attempt.remedy.texts
                if path not in blocked
            }
            if not linked:
                break
            blocked.update(linked)
        for path in sorted(self.fixer.texts.changed.keys() - blocked.keys()):
            try:
                self._written(path, outcome)
            except OSError as error:
                blocked[path] = f"{type(error).__name__}: {error}"
        for path, why in blocked.items():
            outcome.problems.append(Problem("fix", shown_path(path), f"{why}, so nothing was written"))
        for attempt in passed:
            why = next((blocked[path] for path in attempt.remedy.texts if path in blocked), "")
            attempt.status, attempt.why = (
                (FixStatus.NOT_WRITTEN, why) if why else (FixStatus.WRITTEN, attempt.why)
            )

    def _blocked(self, path: str) -> str:
        file = self._file(path)
        return "the file cannot be read" if file is None else file.obstacle(self.fixer.texts.changed[path])

    def _written(self, path: str, outcome: CheckOutcome) -> None:
        """Write a file. Raises OSError."""
        file, text = self._file(path), self.fixer.texts.changed[path]
        if file is None:
            raise FileNotFoundError(path)
        file.write(text)
        outcome.sources.texts[path] = split_text(text)
        outcome.readings.update(readings_of({path: text}))
