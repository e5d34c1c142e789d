"""`fuselight upgrade --format html`: one file that needs no network, with targets, differences and details.

Invariant: the look, search and sort are those of the page of a sweep; no text of a program becomes markup.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fuselight_server.base.finding import Finding
from fuselight_server.cli.formats.finding_parts import severity_word
from fuselight_server.cli.formats.upgrade import (
    HEADINGS,
    heading,
    new_findings,
    part_rows,
    summary,
    target_name,
)
from fuselight_server.commands.sources import shown_path
from fuselight_server.commands.upgrade import UpgradeOutcome
from fuselight_server.explain.pages.document import static_page
from fuselight_server.explain.pages.parts import (
    ROWS,
    TableCell,
    TableLine,
    filled_columns,
    html_section,
    html_table,
    html_text,
    number_cell,
    search_bar,
)
from fuselight_server.jobs.comparison.model import ChangeVerdict, FindingState
from fuselight_server.upgrades.model import TargetComparison
from fuselight_server.upgrades.numerics import result_change


def upgrade_as_page(outcome: UpgradeOutcome) -> str:
    """The page of a comparison."""
    sections = [_differences(outcome), _details(outcome), _targets(outcome), _notes(outcome)]
    return static_page(heading(outcome), summary(outcome), (), sections)


def _differences(outcome: UpgradeOutcome) -> str:
    lines = [
        TableLine(
            (
                TableCell(HEADINGS[verdict][0], css="failure" if verdict is ChangeVerdict.REGRESSION else ""),
                TableCell(target_name(target)),
                TableCell(text),
            ),
            {"job": target_name(target), "status": HEADINGS[verdict][0]},
        )
        for verdict in HEADINGS
        for target in outcome.comparison.targets
        for text in (
            *(_finding_text(finding) for finding in new_findings(target, verdict)),
            *part_rows(target, verdict, outcome),
        )
    ]
    if not lines:
        return html_section("Differences", "<p>No differences.</p>")
    columns, filled = filled_columns(("kind", "target", "difference"), lines)
    names = dict.fromkeys(target_name(target) for target in outcome.comparison.targets)
    bar = search_bar("Target", names, "Kind", (text for text, _ in HEADINGS.values()))
    table = html_table("One row for each difference; press a heading to sort", columns, filled, table_id=ROWS)
    return html_section("Differences", bar, table)


def _finding_text(finding: Finding) -> str:
    place = f"{shown_path(finding.span.path)}:{finding.span.line}"
    return f"{severity_word(finding)}[{finding.code}] {place}: {finding.title}"


def _details(outcome: UpgradeOutcome) -> str:
    parts = [
        _detail(finding, outcome)
        for verdict in HEADINGS
        for target in outcome.comparison.targets
        for finding in new_findings(target, verdict)
    ]
    return html_section("Details of new findings", *parts) if parts else ""


def _detail(finding: Finding, outcome: UpgradeOutcome) -> str:
    source = outcome.sources.line(finding.span.path, finding.span.line)
    text = f"{source.strip()}\n\n{finding.message}" if source else finding.message
    return f"<details><summary>{html_text(_finding_text(finding))}</summary><pre>{html_text(text)}</pre></details>"


def _targets(outcome: UpgradeOutcome) -> str:
    lines = [_target_line(target) for target in outcome.comparison.targets]
    states = tuple(state.value for state in FindingState)
    columns = ("target", "state", "regressions", *states, "kernels before", "kernels after", "results")
    return html_section("Targets", html_table("One row for each target", columns, lines))


def _target_line(target: TargetComparison) -> TableLine:
    findings = Counter(change.state for change in target.findings)
    before, after = (_kernels(target, is_after=is_after) for is_after in (False, True))
    results = dict.fromkeys(result_change(call).value for call in target.calls)
    return TableLine(
        (
            TableCell(target_name(target)),
            TableCell("not compared" if target.is_undecided else target.state.value),
            number_cell(len(list(target.regressions()))),
            *(number_cell(findings[state]) for state in FindingState),
            number_cell(before),
            number_cell(after),
            TableCell(", ".join(results)),
        )
    )


def _kernels(target: TargetComparison, *, is_after: bool) -> int | None:
    """The kernels of all functions of a side; None if it generated none."""
    sides = (change.after if is_after else change.before for change in target.functions)
    known = [facts.kernels for facts in sides if facts is not None and facts.kernels is not None]
    return sum(map(len, known)) if known else None


def _notes(outcome: UpgradeOutcome) -> str:
    notes = list(_note_texts(outcome))
    return html_section("Notes", *(f"<p>{html_text(note)}</p>" for note in notes)) if notes else ""


def _note_texts(outcome: UpgradeOutcome) -> Iterator[str]:
    yield from outcome.comparison.notes
    for target in outcome.comparison.targets:
        yield from (f"{target_name(target)}: {note}" for note in target.notes)
    yield from (f"{problem.what}: {problem.why}" for problem in outcome.problems)
