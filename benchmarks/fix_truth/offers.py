"""The fixes that are offered for programs, each alone on the text as it is.

As `fuselight fix --allow-behavior-changes` does: all targets of a program run first, and each fix is verified for
all of them. One worker serves all programs.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuselight.shared.protocol import Limits
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.fix import FixedFiles
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.targets import report_each
from fuselight_server.fixes.verification.case_policy import RAISES
from fuselight_server.fixes.verification.fixer import FixOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.shared.report import Report
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun
    from fuselight_server.fixes.verification.attempts import Attempt

_SECONDS = 180.0
_NO_LONGER = " is no longer raised"
OTHER = "another exception"
"""In a title: what an exception becomes, if its type is not known."""


@dataclass(frozen=True)
class Offer:
    """A fix that passed the verification."""

    kind: str
    title: str
    fix_class: str
    changes: str
    words: str
    """What the entry in the menu promises: `same results, except ...`."""
    line: int
    excepted: tuple[str, ...] = ()
    """Families of cases that the title excepts."""
    raises: tuple[tuple[str, str], ...] = ()
    """Exceptions that the title excepts, each with what becomes of it: another one, `OTHER`, or none."""
    texts: dict[str, str] = field(default_factory=dict)
    """The new text of each changed file, by path."""

    def as_data(self) -> dict[str, Any]:
        """For a file of results, without the texts."""
        return {name: value for name, value in asdict(self).items() if name != "texts"}


@dataclass
class Offered:
    """What came of the fixes of one program."""

    offers: list[Offer] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Kind and reason of each fix that was refused."""
    failures: list[str] = field(default_factory=list)


def main_file(program: Path) -> Path:
    """The file that a program consists of, or the main file of its folder."""
    return program / "main.py" if program.is_dir() else program


async def offered(mains: list[Path], folder: Path, done: Callable[[Path, Offered], None]) -> None:
    """Find the offers of programs whose main files are given, and call `done` for each as soon as it is known."""
    everything = {main.resolve(): Offered() for main in mains}
    runs: dict[Path, list[tuple[TargetRun, Report]]] = {main: [] for main in everything}
    files: dict[Path, FixedFiles] = {}
    for number, main in enumerate(everything):
        (folder / str(number)).mkdir(parents=True)
        files[main] = FixedFiles(FixOptions(), str(folder / str(number)), writes=False)

    async def report_of(target_run: TargetRun, outcome: CheckOutcome) -> Report:
        main = Path(target_run.request.target.path)
        report = await files[main].report_of(target_run, outcome)
        runs[main].append((target_run, report))
        everything[main].failures += [failure.message for failure in report.failures]
        return report

    async def attempt_all(_outcome: CheckOutcome) -> None:
        for main, known in runs.items():
            await _attempt(files[main], known, everything[main])
            files[main].fixer.runs.forget_results()
            done(main, everything[main])

    options = CommandOptions(tuple(everything), (), sys.executable, limits=Limits(seconds=_SECONDS))
    await report_each(options, lambda _text: None, CancelToken(), report_of, after_all=attempt_all)


async def _attempt(files: FixedFiles, runs: list[tuple[TargetRun, Report]], into: Offered) -> None:
    seen: set[tuple[Any, ...]] = set()
    for target_run, report in runs:
        for finding in files.fixer.findings(report):
            for remedy in files.fixer.candidates(finding, report):
                key = (target_run.request.target.name, remedy.kind, *sorted(remedy.texts.items()))
                if key in seen:
                    continue
                seen.add(key)
                attempt = await files.fixer.attempt(target_run, finding, remedy, report)
                if attempt.has_passed:
                    into.offers.append(_offer(attempt))
                else:
                    into.refused.append(f"{remedy.kind} on line {attempt.line}: {attempt.why}")


def _offer(attempt: Attempt) -> Offer:
    remedy = attempt.remedy
    return Offer(
        remedy.kind,
        remedy.title,
        attempt.fix_class.value,
        remedy.changes,
        attempt.why,
        attempt.line,
        attempt.excepted,
        tuple(
            _change(exception.name)
            for exception in attempt.comparison.exceptions
            if exception.family == RAISES
        ),
        remedy.texts,
    )


def _change(words: str) -> tuple[str, str]:
    """An exception and what becomes of it, as a title says: `ValueError becomes TypeError`."""
    old, _, new = words.removesuffix(_NO_LONGER).partition(" becomes ")
    return old.rpartition(".")[2], new if new == OTHER else new.rpartition(".")[2]
