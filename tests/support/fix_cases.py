"""Annotated fixes: a source file says, below the line of a finding, which fixes are offered and what each changes.

    if x.sum() > 0:
    # fix: [GB0170] where "Use torch.where"
    # = 2 -> 1 graphs, same results
    # -|    if x.sum() > 0:
    # -|        return x + 1
    # -|    return x - 1
    # +|    return torch.where(x.sum() > 0, x + 1, x - 1)
        return x + 1
    return x - 1

A comment `# fix: [CODE] KIND "TITLE"` expects a remedy of this kind that passes its verification; `# refused:` expects
one that does not. The comments beneath it are the verdict, after `=`, and all lines that the remedy removes and
inserts; ` |` is the line before those that are only inserted. A finding may have several, in the order of the remedies:
those after the last one that is annotated are not tried. `# fix:` alone is filled in by `pytest --update-cases`.

Invariant: what runs is the file without these comments, each remedy on the text without all others.
"""

from __future__ import annotations

import difflib
import re
import tempfile
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.fix import FixedFiles
from fuselight_server.commands.targets import report_each
from fuselight_server.fixes.verification.attempts import FixStatus
from fuselight_server.fixes.verification.fixer import FixOptions
from tests.support.cases import CaseError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fuselight.shared.report import Report
    from fuselight_server.commands.options import CommandOptions
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun
    from fuselight_server.fixes.verification.attempts import Attempt

_HEADER = re.compile(r'\s*# ((?:fix|refused):(?: \[\w+\] \w+ "[^"]+")?)')
_LOOKS_LIKE_ONE = re.compile(r"#\s*(?:fix|refused)\s*:")
_DETAIL = re.compile(r"\s*# ([-+ ]\|.*|= .*)")
_WIDTH = 90
"""Characters of a line of the verdict."""


@dataclass(frozen=True)
class FixExpectation:
    """One remedy that is expected for a finding."""

    line: int
    """Line of the finding in the program without annotations, 1-based."""
    head: str
    """`fix: [GB0170] where "Use torch.where"`; `fix:` where it is to be filled in."""
    details: tuple[str, ...]
    """The lines of its verdict, and the lines that it removes and inserts, as `lines_of_change` gives them."""

    def __str__(self) -> str:
        return "\n      ".join((f"{self.line}: {self.head}", *self.details))


@dataclass
class FixCase:
    """A file of annotated fixes."""

    lines: list[str]
    """The program: the lines without annotations."""
    expected: list[FixExpectation] = field(default_factory=list)

    @property
    def program(self) -> str:
        """The text that runs."""
        return "\n".join(self.lines) + "\n"

    def expected_at(self, line: int) -> int:
        """How many remedies are annotated for the findings of a line."""
        return sum(expectation.line == line for expectation in self.expected)


def parse(text: str) -> FixCase:
    """Split a file into its program and its annotations. Raises CaseError."""
    case = FixCase([])
    head, details = "", list[str]()

    def finish() -> None:
        if head:
            case.expected.append(FixExpectation(len(case.lines), head, tuple(details)))

    for number, line in enumerate(text.splitlines(), 1):
        match, detail = _HEADER.fullmatch(line), _DETAIL.fullmatch(line)
        if match is not None:
            finish()
            head, details = match[1], []
        elif detail is not None:
            if not head:
                raise CaseError(f"line {number}: a verdict or a changed line without a fix above it")
            details.append(detail[1])
        elif _LOOKS_LIKE_ONE.search(line):
            raise CaseError(f'line {number}: a fix is `# fix: [CODE] KIND "TITLE"`')
        else:
            finish()
            head = ""
            case.lines.append(line)
    finish()
    return case


def lines_of_change(old: str, new: str) -> tuple[str, ...]:
    """The lines that a text loses (`-|`) and gains (`+|`); the line before (` |`) where it only gains some."""
    before, after = old.splitlines(), new.splitlines()
    out: list[str] = []
    for kind, start, end, new_start, new_end in difflib.SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes():
        if kind == "insert":
            out += [f" |{line}" for line in before[max(start - 1, 0) : start]]
        if kind != "equal":
            out += [f"-|{line}" for line in before[start:end]]
            out += [f"+|{line}" for line in after[new_start:new_end]]
    return tuple(out)


def of_attempt(attempt: Attempt, program: str) -> FixExpectation:
    """An attempt as its annotation would say it."""
    ((_, text),) = attempt.remedy.texts.items()  # a case is one file
    word = "refused" if attempt.status is FixStatus.REFUSED else "fix"
    title = attempt.remedy.title.replace('"', "'")
    counted = "" if attempt.graphs is None else f"{attempt.graphs[0]} -> {attempt.graphs[1]} graphs, "
    uncovered = f", {attempt.next_words}" if attempt.next else ""
    verdict = (f"= {line}" for line in textwrap.wrap(f"{counted}{attempt.why}{uncovered}", _WIDTH))
    return FixExpectation(
        attempt.finding.span.line,
        f'{word}: [{attempt.finding.code}] {attempt.remedy.kind} "{title}"',
        (*verdict, *lines_of_change(program, text)),
    )


def disagreements(case: FixCase, attempts: Iterable[Attempt]) -> list[str]:
    """All differences between the annotations and what was tried, as text; empty if they agree."""
    tried = [of_attempt(attempt, case.program) for attempt in attempts]
    out = []
    for line in sorted({expectation.line for expectation in (*case.expected, *tried)}):
        wanted = [expectation for expectation in case.expected if expectation.line == line]
        came = [expectation for expectation in tried if expectation.line == line]
        if wanted == came:
            continue
        differences = [f"expected {expectation}" for expectation in wanted if expectation not in came]
        differences += [f"found {expectation}" for expectation in came if expectation not in wanted]
        out += differences or [f"{line}: the order or the number differs"]
    return out


def rewritten(case: FixCase, attempts: Iterable[Attempt]) -> str:
    """The file with its annotations as the attempts have them; `# fix:` where one is missing."""
    tried = [of_attempt(attempt, case.program) for attempt in attempts]
    out = []
    for number, line in enumerate(case.lines, 1):
        out.append(line)
        indent = line[: len(line) - len(line.lstrip())]
        here = [fix_expectation for fix_expectation in tried if fix_expectation.line == number]
        for expectation in here:
            out += [f"{indent}# {text}" for text in (expectation.head, *expectation.details)]
        out += [f"{indent}# fix:"] * (case.expected_at(number) - len(here))
    return "\n".join(out) + "\n"


async def attempts_of(options: CommandOptions, cases: Mapping[str, FixCase]) -> dict[str, list[Attempt]]:
    """Try the remedies of files, by path: for the findings of each line as many as are annotated there.

    With the calls of the directives alone: tests/worker/worker/test_further_*.py test the others.
    """
    attempts: dict[str, list[Attempt]] = {path: [] for path in cases}
    left = {
        path: {line: case.expected_at(line) for line in range(1, len(case.lines) + 1)}
        for path, case in cases.items()
    }
    with tempfile.TemporaryDirectory(prefix="fuselight-fix-cases-") as folder:
        files = {path: FixedFiles(FixOptions(), folder, writes=False) for path in cases}

        async def report_of(target_run: TargetRun, outcome: CheckOutcome) -> Report:
            path = target_run.request.target.path
            files[path].read(outcome)
            fixer = files[path].fixer
            report = await target_run.run_report(target_run.request)
            for finding in fixer.findings(report):
                line = finding.span.line
                for remedy in fixer.candidates(finding, report)[: left[path][line]]:
                    left[path][line] -= 1
                    attempts[path].append(await fixer.first_attempt(target_run, finding, remedy, report))
            fixer.runs.forget_results()
            return report

        await report_each(options, lambda _text: None, CancelToken(), report_of, splits_programs=True)
    return attempts
