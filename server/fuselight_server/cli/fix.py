"""`fuselight fix`: changes that remove findings, each run and compared with the text before it.

Invariant: a fix that is shown as passed was compiled and compared on top of those before it. Files change with
`--write` alone, each as a whole or not at all.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import enum
import io
import shutil
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuselight.protocol import VerifyRequest
from fuselight.report import Problem, Verification
from fuselight_server.cli.check import shared_findings
from fuselight_server.cli.options import CommandOptions, add_command_options
from fuselight_server.cli.outcome import CheckOutcome, report_problems
from fuselight_server.cli.sources import shown_path
from fuselight_server.cli.targets import complete, report_each
from fuselight_server.cli.terminal import standard_output
from fuselight_server.files import split_text
from fuselight_server.findings import apply_ignores, findings
from fuselight_server.findings.counts import counts
from fuselight_server.fixes import FixClass, remedies
from fuselight_server.fixes.file_texts import FileText
from fuselight_server.fixes.verdict import DiffLines, Verdict, judge, judge_calls
from fuselight_server.runs.planning import MAIN, RunOptions, named_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from fuselight.protocol import RunRequest
    from fuselight.report import Report
    from fuselight_server.cli.targets import TargetRun
    from fuselight_server.finding import Finding
    from fuselight_server.fixes import Remedy
    from fuselight_server.static.reading import Reading

_MOST_FIXES = 200
"""Most fixes of one target: a remedy that brings its own finding back must end."""


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


@dataclass
class FixOutcome:
    """All attempts of the command."""

    checked: CheckOutcome
    """Findings of the files as they are at the end."""
    attempts: list[Attempt] = field(default_factory=list)
    unsolved: int = 0
    """Findings for which no remedy is known."""
    diff: str = ""


@dataclass(frozen=True)
class FixOptions:
    """What to fix."""

    select: tuple[str, ...] = ()
    """Codes, or the start of codes; empty for all."""
    changes_behavior: bool = False
    """Whether fixes that change behavior are allowed."""
    writes: bool = False

    def takes(self, finding: Finding) -> bool:
        """Whether a finding is selected."""
        return not self.select or finding.code.startswith(self.select)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json"), seconds=120.0, memory_mb=8192, limited="run")
    parser.add_argument(
        "--select",
        metavar="CODE",
        action="append",
        help="fix only findings with this code, or a code that starts so; repeatable",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--diff", action="store_true", help="print the changes of the fixes that pass")
    output.add_argument("--write", action="store_true", help="write the fixes that pass into the files")
    parser.add_argument(
        "--allow-behavior-changes",
        "--allow-behaviour-changes",
        dest="changes_behavior",
        action="store_true",
        help="also try fixes that change random numbers, output or exceptions",
    )


def execute(options: argparse.Namespace) -> int:
    """Try the fixes and print what became of each; returns the exit code."""
    asked = FixOptions(tuple(options.select or ()), options.changes_behavior, options.write)
    outcome = complete(options, fix, asked)
    from fuselight_server.cli.formats.fixes import fixes_as_json, print_fixes  # noqa: PLC0415 - not for --help

    terminal = standard_output(options.color)
    if options.format == "json":
        terminal.write_data(fixes_as_json(outcome) + "\n")
    else:
        if options.diff:
            terminal.write_data(outcome.diff)
        print_fixes(outcome, terminal)
        report_problems(outcome.checked, "fix")
    return outcome.checked.exit_code


async def fix(options: CommandOptions, show: Callable[[str], None], asked: FixOptions) -> FixOutcome:
    """Run the targets one after the other, and try the remedies of their findings."""
    with tempfile.TemporaryDirectory(prefix="fuselight-fix-", ignore_cleanup_errors=True) as folder:
        fixer = Fixer(asked, folder)
        checked = await report_each(options, show, fixer.report_of)
    outcome = FixOutcome(checked, fixer.attempts, fixer.unsolved, fixer.diff())
    if asked.writes:
        fixer.write(checked)
    shared_findings(checked)
    return outcome


class Fixer:
    """The texts with the fixes that have passed so far, and what was tried."""

    def __init__(self, asked: FixOptions, folder: str) -> None:
        """`folder`: an empty one for the results of runs."""
        self.attempts: list[Attempt] = []
        self.unsolved = 0
        self._asked = asked
        self._files: dict[str, FileText | None] = {}
        self._texts: dict[str, str] = {}
        """The texts with fixes, by path."""
        self._runs: list[tuple[TargetRun, Report]] = []
        """The targets so far, with their last reports."""
        self._folder = folder
        self._records: dict[object, tuple[str, Report]] = {}
        """Results of the texts so far; none of older texts."""

    async def report_of(self, target_run: TargetRun, outcome: CheckOutcome) -> Report:
        """Report one target, after its fixes if files are written, else before them."""
        first = await target_run.report(self._request(target_run, self._texts))
        last = first
        tried: set[tuple[str, str, str, str]] = set()
        for _ in range(_MOST_FIXES):
            fixed = await self._next_fix(target_run, last, outcome, tried)
            if fixed is None:
                break
            last = fixed
        self.unsolved += sum(
            self._asked.takes(one) and not self._candidates(one, last)
            for one in self._findings(last, outcome)
        )
        self._runs.append((target_run, last))
        return last if self._asked.writes else first

    async def _next_fix(
        self,
        target_run: TargetRun,
        report: Report,
        outcome: CheckOutcome,
        tried: set[tuple[str, str, str, str]],
    ) -> Report | None:
        """Try remedies until one passes, and keep its texts. Returns the report of the new text, None if none does."""
        for finding in self._findings(report, outcome):
            if not self._asked.takes(finding):
                continue
            for remedy in self._candidates(finding, report):
                key = (finding.code, finding.span.path, self._line(finding), remedy.kind)
                if key in tried:
                    continue
                tried.add(key)
                if remedy.fix_class is FixClass.CHANGES and not self._asked.changes_behavior:
                    why = f"changes behavior ({remedy.changes}): allow it with --allow-behavior-changes"
                    self.attempts.append(
                        Attempt(finding, self._line_read(finding), remedy, FixStatus.SKIPPED, why)
                    )
                    continue
                target_run.show(f"{remedy.title} on line {finding.span.line}")
                attempt, new = await self._try(target_run, finding, remedy, report, outcome)
                self.attempts.append(attempt)
                if new is not None:
                    self._texts.update(remedy.texts)
                    self._forget_results()
                    return new
        return None

    async def _try(
        self,
        target_run: TargetRun,
        finding: Finding,
        remedy: Remedy,
        report: Report,
        outcome: CheckOutcome,
    ) -> tuple[Attempt, Report | None]:
        """Verify a remedy for the target, and for the targets before it that run a file which the remedy changes."""
        obstacle = self._obstacle(remedy)
        if obstacle:
            return Attempt(finding, self._line_read(finding), remedy, FixStatus.REFUSED, obstacle), None
        new = await self._verified(target_run, remedy)
        lines = {path: DiffLines(self._text(path) or "", text) for path, text in remedy.texts.items()}
        readings = self._readings({**self._texts, **remedy.texts}, outcome)
        verdict = judge(
            remedy,
            finding,
            before=self._findings(report, outcome),
            after=apply_ignores(findings(new), readings),
            report=new,
            lines=lines,
        )
        others = [one for one, known in self._runs if remedy.texts.keys() & known.files.keys()]
        for other in others if verdict.passed else ():
            found = judge_calls(remedy, await self._verified(other, remedy))
            if not found.passed:
                name = other.request.target.name or MAIN
                verdict = Verdict(passed=False, words=f"for the target {name}: {found.words}")
                break
        attempt = Attempt(
            finding,
            self._line_read(finding),
            remedy,
            FixStatus.PASSED if verdict.passed else FixStatus.REFUSED,
            verdict.words,
            (counts(report).graphs, counts(new).graphs) if verdict.passed else None,
            new.verification.notes if new.verification is not None else (),
        )
        return attempt, new if verdict.passed else None

    async def _verified(self, target_run: TargetRun, remedy: Remedy) -> Report:
        """The report of the new text, compared with the texts so far."""
        is_special = remedy.fix_class is FixClass.EQUAL
        changed = {path: self._text(path) or "" for path in remedy.texts}
        folder, recorded = await self._recorded(target_run, {**self._texts, **changed}, is_special=is_special)
        verification = recorded.verification
        if verification is None:
            why = recorded.failures[0].message if recorded.failures else "it gave no results"
            refused = Verification(refused=f"the text without the fix fails: {why}")
            return dataclasses.replace(recorded, failures=(), verification=refused)
        if verification.refused:
            return dataclasses.replace(recorded, failures=())
        new = self._request(target_run, {**self._texts, **remedy.texts})
        asked = new.of_kind(VerifyRequest, folder=folder, non_finite=is_special, automatic=True)
        report = await target_run.report(asked)
        notes = report.verification.notes if report.verification is not None else ()
        if report.verification is None or not verification.notes:
            return report
        both = tuple(dict.fromkeys((*verification.notes, *notes)))
        return dataclasses.replace(report, verification=dataclasses.replace(report.verification, notes=both))

    async def _recorded(
        self, target_run: TargetRun, texts: Mapping[str, str], *, is_special: bool
    ) -> tuple[str, Report]:
        """The folder with the results of the texts so far, and the report of the run that wrote them."""
        target = target_run.request.target
        key = (target, tuple(sorted(texts.items())), is_special)
        if key not in self._records:
            folder = tempfile.mkdtemp(dir=self._folder)
            asked = self._request(target_run, texts).of_kind(
                VerifyRequest, folder=folder, records=True, non_finite=is_special, automatic=True
            )
            self._records[key] = folder, await target_run.report(asked)
        return self._records[key]

    def _request(self, target_run: TargetRun, texts: Mapping[str, str]) -> RunRequest:
        """The request of the target, with its lines and directives as `texts` have them."""
        from fuselight_server.static.document import read_source  # noqa: PLC0415 - while the worker starts

        request = target_run.request
        path, target = request.target.path, request.target
        if path not in texts:
            return dataclasses.replace(request, overlays=dict(texts))
        options = RunOptions(
            roots=request.roots,
            limits=request.limits,
            default_sizes=request.inputs.default_sizes,
            overlays=dict(texts),
            recorded={target.name: request.inputs.recorded} if request.inputs.recorded else {},
        )
        planned = named_runs(read_source(path, texts[path]), [target.name or MAIN], options)
        same = next((one for one in planned if one.target.name == target.name), None)
        if same is None:  # the run then says that the file has no such target
            return dataclasses.replace(request, overlays=dict(texts))
        return same.request(request.id, request.generation, options)

    def _forget_results(self) -> None:
        for folder, _ in self._records.values():
            shutil.rmtree(folder, ignore_errors=True)
        self._records.clear()

    def _candidates(self, finding: Finding, report: Report) -> tuple[Remedy, ...]:
        return remedies(finding, report, self._text)

    def _findings(self, report: Report, outcome: CheckOutcome) -> tuple[Finding, ...]:
        return apply_ignores(findings(report), self._readings(self._texts, outcome))

    def _readings(self, texts: Mapping[str, str], outcome: CheckOutcome) -> dict[str, Reading]:
        from fuselight_server.static.document import read_source  # noqa: PLC0415 - while the worker starts

        changed = {path: read_source(path, text) for path, text in texts.items()}
        return {**outcome.readings, **changed}

    def _line(self, finding: Finding) -> str:
        """The source line of a finding, which moves with edits above it."""
        lines = split_text(self._text(finding.span.path) or "")
        number = finding.span.line
        return lines[number - 1] if 0 < number <= len(lines) else str(number)

    def _line_read(self, finding: Finding) -> int:
        """The line of a finding in the file as it was read, before the fixes so far."""
        path = finding.span.path
        file = self._file(path)
        if path not in self._texts or file is None:
            return finding.span.line
        return DiffLines(self._texts[path], file.text).lines(finding.span.line)[0]

    # Files

    def _file(self, path: str) -> FileText | None:
        if path not in self._files:
            try:
                self._files[path] = FileText.read(path)
            except (OSError, SyntaxError, ValueError, LookupError):
                self._files[path] = None
        return self._files[path]

    def _text(self, path: str) -> str | None:
        """The text of a file with the fixes so far; None if it cannot be read."""
        if path in self._texts:
            return self._texts[path]
        file = self._file(path)
        return file.text if file is not None else None

    def _obstacle(self, remedy: Remedy) -> str:
        """Why the files of a remedy cannot be changed; empty if they can."""
        for path, text in remedy.texts.items():
            file = self._file(path)
            why = "it cannot be read" if file is None else file.obstacle(text)
            if why:
                return f"{shown_path(path)}: {why}"
        return ""

    def diff(self) -> str:
        """The unified diff of all fixes that passed."""
        return "".join(line for path in sorted(self._texts) for line in self._diff_of(path))

    def _diff_of(self, path: str) -> Iterator[str]:
        file, name = self._file(path), shown_path(path)
        old = file.text if file is not None else ""
        # Not by `splitlines`, which also splits at form feeds.
        lines = [list(io.StringIO(text, newline="")) for text in (old, self._texts[path])]
        for line in difflib.unified_diff(lines[0], lines[1], f"a/{name}", f"b/{name}"):
            yield line if line.endswith(("\n", "\r")) else f"{line}\n\\ No newline at end of file\n"

    def write(self, outcome: CheckOutcome) -> None:
        """Write the texts. Fixes that share a file with one that cannot be written are not written either."""
        passed = [one for one in self.attempts if one.status is FixStatus.PASSED]
        blocked = {path: why for path in self._texts if (why := self._blocked(path))}
        while True:
            linked = {
                path: blocked[first]
                for one in passed
                if (first := next((path for path in one.remedy.texts if path in blocked), None))
                for path in one.remedy.texts
                if path not in blocked
            }
            if not linked:
                break
            blocked.update(linked)
        for path in sorted(self._texts.keys() - blocked.keys()):
            try:
                self._written(path, outcome)
            except OSError as error:
                blocked[path] = f"{type(error).__name__}: {error}"
        for path, why in blocked.items():
            outcome.problems.append(Problem("fix", shown_path(path), f"{why}, so nothing was written"))
        for one in passed:
            why = next((blocked[path] for path in one.remedy.texts if path in blocked), "")
            one.status, one.why = (FixStatus.NOT_WRITTEN, why) if why else (FixStatus.WRITTEN, one.why)

    def _blocked(self, path: str) -> str:
        file = self._file(path)
        return "the file cannot be read" if file is None else file.obstacle(self._texts[path])

    def _written(self, path: str, outcome: CheckOutcome) -> None:
        """Write a file. Raises OSError."""
        file, text = self._file(path), self._texts[path]
        if file is None:
            raise FileNotFoundError(path)
        file.write(text)
        outcome.sources.texts[path] = split_text(text)
        outcome.readings.update(self._readings({path: text}, CheckOutcome()))
