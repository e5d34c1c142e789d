"""Attempts to fix a finding: a remedy, what came of it, and what it promises.

Invariant: an attempt that has passed has the report of the new text; one that was refused says why.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass

from fuselight.shared.report import Report
from fuselight.shared.report.verification import ONE_SIDE
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings.common.counts import Counts, counts
from fuselight_server.explain.findings.common.text import next_words
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.verification.case_policy import exception_words
from fuselight_server.fixes.verification.comparison import NOT_COMPARED, TextComparison


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
    next: tuple[Finding, ...] = ()
    """Findings that it uncovers in code that ran in eager mode before, with the lines of the file as it was read."""
    is_checking: bool = False
    """Whether further calls are still to be compared."""
    comparison: TextComparison = NOT_COMPARED
    """What the compared calls show."""
    is_of_trial: bool = False
    """Whether a trial of the change says what is known of it, as nothing was compared."""
    as_read: Finding | None = None
    """The finding in the file as it was read; None where no fix came before."""

    def with_comparison(self, comparison: TextComparison) -> Attempt:
        """The attempt after calls were compared, which may refuse it."""
        where = f"{self.remedy.title} on line {self.line}"
        notes = (*comparison.notes, *(f"{where}: {words}" for words in comparison.memory))
        shown = dataclasses.replace(self, why=comparison.words, notes=notes, comparison=comparison)
        return shown if comparison.has_passed else refuse(shown, comparison.words)

    @property
    def fix_class(self) -> FixClass:
        """The class that it earned: that of the remedy, or equal where an exact one rounds or has exceptions."""
        earned = self.comparison.fix_class if self.has_passed else None
        return earned or self.remedy.fix_class

    @property
    def excepted(self) -> tuple[str, ...]:
        """The families of its exceptions."""
        return tuple(dict.fromkeys(exception.family for exception in self.comparison.exceptions))

    @property
    def has_passed(self) -> bool:
        """Whether it may be offered."""
        return self.report is not None

    @property
    def is_skipped(self) -> bool:
        """Whether it was not tried."""
        return self.status is FixStatus.SKIPPED

    @property
    def is_one_sided(self) -> bool:
        """Whether a side of a branch was not compared."""
        return any(note.endswith(ONE_SIDE) for note in self.notes)

    @property
    def left(self) -> tuple[int, ...]:
        """How good it is, the smaller the better: exceptions, then what its run left; empty if it has not passed.

        What is left: breaks, compiles, operators outside of graphs.
        """
        if self.report is None:
            return ()
        operators = sum(record.graph.operators for record in self.report.compiles if record.graph is not None)
        is_limited = self.remedy.fix_class is FixClass.CHANGES, bool(self.excepted)
        return (*map(int, is_limited), counts(self.report).breaks, len(self.report.compiles), -operators)

    @property
    def next_words(self) -> str:
        """`next: GB0059 on m.py:39`; empty if it uncovers nothing."""
        return next_words((finding.code, finding.span.path, finding.span.line) for finding in self.next)

    @property
    def promise(self) -> str:
        """`Use torch.where: verified`, and what limits that."""
        limits = (
            "changes behavior" if self.remedy.fix_class is FixClass.CHANGES else "",
            exception_words(self.comparison.exceptions),
            "one side not tried" if self.is_one_sided else "",
            self.next_words,
        )
        return f"{self.remedy.title}: {', '.join(('verified', *filter(None, limits)))}"


def refuse(attempt: Attempt, why: str) -> Attempt:
    """The attempt after something has refused it."""
    return dataclasses.replace(
        attempt,
        status=FixStatus.REFUSED,
        why=why,
        report=None,
        graphs=None,
        effect="",
        next=(),
        is_checking=False,
    )


def effect(before: Counts, after: Counts, traced: tuple[int, int] | None = None) -> str:
    """What changes of a target: `3 → 1 graphs`, else `2 → 0 recompilations` or `1 → 0 breaks`; empty if nothing.

    A count that falls comes first: a print that moves into a graph can need one more graph to be rid of a break.
    `traced`: lines that torch traced up to a break, where no count changes.
    """
    traced_before, traced_after = traced or (0, 0)
    counts = (
        (before.graphs, after.graphs, "graphs"),
        (before.recompilations, after.recompilations, "recompilations"),
        (before.breaks, after.breaks, "breaks"),
        (traced_before, traced_after, "lines traced before a break"),
    )
    changed = sorted(
        (count for count in counts if count[0] != count[1]), key=lambda count: count[1] > count[0]
    )
    return next((f"{old} → {new} {noun}" for old, new, noun in changed), "")
