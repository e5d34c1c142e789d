"""What a use case found in notebooks, with the lines of their cells, as a terminal shows them: `train.ipynb:cell 3:2`.

Invariant: use cases work on the modules of notebooks. Only what is shown has cells, and only at the end.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from fuselight.shared.foreign_files import read_regular
from fuselight.shared.notebooks.cells import SUFFIX, NotebookError, read_cells
from fuselight.shared.report import Branch, Fact, Failure, FileFacts, Report, file_name
from fuselight_server.base.files import split_text
from fuselight_server.base.finding import Finding, SourceLine
from fuselight_server.commands.notebook_lines import cell_line, cell_path
from fuselight_server.commands.renamed_lines import renamed
from fuselight_server.commands.sources import SourceFiles
from fuselight_server.source.notebooks.module import ModuleCell, NotebookModule, module_of_text
from fuselight_server.source.notebooks.words import in_cells

if TYPE_CHECKING:
    from fuselight_server.commands.fix import Attempt, FixOutcome
    from fuselight_server.commands.forecast import Trials
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.verify import VerifyOutcome
    from fuselight_server.source.reading import Reading

_Lines = TypeVar("_Lines", Fact, Branch)
_PROGRAM_WORDS = frozenset({"FL401", "FL402", "FL403"})
"""Codes whose titles and messages repeat the words of a program, which may name other lines."""

_DIRECTIVE = re.compile(r"\bthe directive on line \d+")
"""What a message says of the inputs, in words of ours."""


def cell_names(outcome: CheckOutcome) -> CellNames:
    """The names of the lines of the notebooks that were read; none of them has a name where there is no notebook."""
    texts = {path: outcome.sources.text_or_none(path) for path in _notebooks(outcome)}
    return CellNames({path: module_of_text(text) for path, text in texts.items() if text is not None})


def check_in_cells(outcome: CheckOutcome) -> CheckOutcome:
    """The outcome with the lines of cells; itself where no notebook was read."""
    names = cell_names(outcome)
    if not names.modules:
        return outcome
    targets = {_key(report): _key(names.report_in_cells(report)) for report in outcome.reports}
    return dataclasses.replace(
        outcome,
        findings=[names.finding(finding) for finding in outcome.findings],
        reports=[names.report_in_cells(report) for report in outcome.reports],
        readings={**outcome.readings, **names.readings()},
        sources=SourceFiles({**outcome.sources.texts, **names.texts()}, outcome.sources.given),
        unchanged={targets.get(key, key): value for key, value in outcome.unchanged.items()},
        capture_keys={targets.get(key, key): value for key, value in outcome.capture_keys.items()},
        eager_us={names.line(*line) or line: value for line, value in outcome.eager_us.items()},
    )


def forecast_in_cells(outcome: CheckOutcome, trials: Trials) -> tuple[CheckOutcome, Trials]:
    """Forecasts with the lines of cells, and what was tried for their changes."""
    shown = check_in_cells(outcome)
    if shown is outcome:
        return outcome, trials
    names = cell_names(outcome)
    targets = {
        _key(report): _key(other) for report, other in zip(outcome.reports, shown.reports, strict=True)
    }
    return shown, {
        targets.get(key, key): {renamed(change, names.line): trial for change, trial in tried.items()}
        for key, tried in trials.items()
    }


def fix_in_cells(outcome: FixOutcome) -> FixOutcome:
    """The outcome of a fix with the lines of cells."""
    before = {path: module_of_text(text) for path, text in outcome.before.items() if path.endswith(SUFFIX)}
    if not before:
        return outcome
    names = CellNames(before)
    return dataclasses.replace(
        outcome,
        checked=check_in_cells(outcome.checked),
        attempts=[names.attempt(attempt) for attempt in outcome.attempts],
        refusals=tuple(
            dataclasses.replace(refusal, finding=names.finding(refusal.finding))
            for refusal in outcome.refusals
        ),
        findings=tuple(map(names.finding, outcome.findings)),
    )


def verify_in_cells(outcome: VerifyOutcome) -> VerifyOutcome:
    """The verdicts with the lines of cells: of the old text for what is fixed, of the new one for all else."""
    changed = {
        path: module_of_text(text)
        for path, text in outcome.new_sources.given.items()
        if path.endswith(SUFFIX)
    }
    old = cell_names(outcome.checked)
    new = CellNames({**old.modules, **changed})
    if not new.modules:
        return outcome
    return dataclasses.replace(
        outcome,
        checked=check_in_cells(outcome.checked),
        verdicts=tuple(
            dataclasses.replace(
                verdict,
                before=old.report_in_cells(verdict.before),
                after=new.report_in_cells(verdict.after),
                fixed=tuple(map(old.finding, verdict.fixed)),
                new=tuple(map(new.finding, verdict.new)),
                kept=tuple(map(new.finding, verdict.kept)),
                next=tuple(map(new.finding, verdict.next)),
                not_run=tuple(map(new.line_in_cell, verdict.not_run)),
                old_not_run=tuple(map(old.line_in_cell, verdict.old_not_run)),
            )
            for verdict in outcome.verdicts
        ),
        new_sources=SourceFiles(
            {
                cell_path(path, cell): list(cell.python.lines)
                for path, module in new.modules.items()
                for cell in module.cells
            },
            outcome.new_sources.given,
        ),
    )


def _key(report: Report) -> tuple[str, str]:
    return report.target.path, report.target.name


def _notebooks(outcome: CheckOutcome) -> Iterable[str]:
    paths = [*outcome.readings, *(report.target.path for report in outcome.reports)]
    paths += [finding.span.path for finding in outcome.findings]
    return dict.fromkeys(path for path in paths if path.endswith(SUFFIX))


@dataclasses.dataclass(frozen=True)
class CellNames:
    """The names of the lines of some notebooks."""

    modules: Mapping[str, NotebookModule]

    def line(self, path: str, line: int) -> tuple[str, int] | None:
        """The name of a cell, and the line in it, both 1-based; None for a line of no cell."""
        return cell_line(path, self.modules[path], line) if path in self.modules else None

    def line_in_cell(self, at: SourceLine) -> SourceLine:
        """A line by its cell; itself where it is in none."""
        other = self.line(at.path, at.line)
        return SourceLine(*other) if other is not None else at

    def report_in_cells(self, report: Report) -> Report:
        """A report with the lines of cells, also where its failures name those of directives."""
        files: dict[str, FileFacts] = {}
        for path, facts in report.facts.files.items():
            files |= self._facts(path, facts) if path in self.modules else {path: facts}
        other = renamed(report, self.line)
        failures = tuple(self._failure(failure, report.target.path) for failure in other.failures)
        traced = dataclasses.replace(other.facts, files=files)
        return dataclasses.replace(other, facts=traced, failures=failures)

    def _failure(self, failure: Failure, path: str) -> Failure:
        module = self.modules.get(path)
        if module is None:
            return failure
        message = _DIRECTIVE.sub(
            lambda mention: in_cells(mention[0], file_name(path), module), failure.message
        )
        return dataclasses.replace(failure, message=message)

    def _facts(self, path: str, facts: FileFacts) -> dict[str, FileFacts]:
        """The facts of a notebook, by its cells."""
        return {
            cell_path(path, cell): in_cell
            for cell in self.modules[path].cells
            if (in_cell := _facts_of_cell(facts, cell)) != FileFacts()
        }

    def finding(self, finding: Finding) -> Finding:
        """A finding with the lines of cells, also in its texts."""
        module = self.modules.get(finding.span.path)
        other = renamed(finding, self.line)
        if module is None:
            return other
        name = file_name(finding.span.path)

        def words(text: str) -> str:
            return in_cells(text, name, module)

        remedies = tuple(remedy.renamed(words) for remedy in other.remedies)
        other = dataclasses.replace(other, inputs=words(other.inputs), remedies=remedies)
        if finding.code in _PROGRAM_WORDS:
            advice = _DIRECTIVE.sub(lambda mention: words(mention[0]), other.message)
            return dataclasses.replace(other, message=advice)
        return dataclasses.replace(
            other,
            title=words(other.title),
            message=words(other.message),
            cost=tuple(map(words, other.cost)),
            related=tuple(dataclasses.replace(item, message=words(item.message)) for item in other.related),
            also_at=tuple(map(self.finding, finding.also_at)),
        )

    def attempt(self, attempt: Attempt) -> Attempt:
        """An attempt to fix a finding; its line is one of the file as it was read."""
        path = attempt.finding.span.path
        at = self.line(path, attempt.line)
        if at is None:
            return attempt
        span = dataclasses.replace(attempt.finding.span, path=at[0])
        return dataclasses.replace(
            attempt, finding=dataclasses.replace(attempt.finding, span=span), line=at[1]
        )

    def readings(self) -> dict[str, Reading]:
        """The cells as files, for their ignore comments."""
        from fuselight_server.source.document import read_source  # noqa: PLC0415 - a check of files has no use for it

        return {
            path: read_source(path, "\n".join(lines))
            for path, lines in self.texts().items()
            if lines is not None
        }

    def texts(self) -> dict[str, list[str] | None]:
        """The lines of each cell, as the notebook has them."""
        return {
            cell_path(path, cell): list(rows)
            for path, module in self.modules.items()
            for cell, rows in zip(module.cells, _rows(path, module), strict=True)
        }


def _facts_of_cell(facts: FileFacts, cell: ModuleCell) -> FileFacts:
    """The facts that are in one cell, with its lines."""
    before = cell.first_line - 1

    def inside(first: int, last: int) -> bool:
        return cell.first_line <= first and last <= cell.last_line

    def moved(item: _Lines) -> _Lines:
        return dataclasses.replace(item, line=item.line - before, end_line=item.end_line - before)

    return FileFacts(
        tuple(moved(fact) for fact in facts.facts if inside(fact.line, fact.end_line)),
        tuple(moved(branch) for branch in facts.branches if inside(branch.line, branch.end_line)),
        tuple((first - before, last - before) for first, last in facts.untraced if inside(first, last)),
        tuple(
            (first - before, column, last - before, end)
            for first, column, last, end in facts.computed
            if inside(first, last)
        ),
    )


def _rows(path: str, module: NotebookModule) -> Sequence[Sequence[str]]:
    """The lines of each cell: those of the file, unless it has changed since."""
    rows = [cell.python.lines for cell in module.cells]
    try:
        written = [split_text(cell.text) for cell in read_cells(read_regular(path))]
    except (OSError, NotebookError):
        return rows
    return written if list(map(len, written)) == list(map(len, rows)) else rows
