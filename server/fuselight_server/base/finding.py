"""What a finding is: data. The editor, the terminal and SARIF each make their own text of it.

Lines are 1-based; columns are 0-based offsets in the UTF-8 bytes of the line, as in the Report. A span
without columns means the whole line from its first non-blank character.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from fuselight.shared.report import CallCure, Tier
from fuselight_server.base.remedies import FindingRemedy, advised

WRONG_RESULTS = frozenset({"FL202", "FL205", "FL801", "FL941", "FL942", "FL943", "FL944", "FL948", "FL949"})
"""Codes of lines that compute or keep something else than they should, without a message: they come before all others
of their severity."""


class Severity(enum.IntEnum):
    """Higher is worse; `fuselight check` fails at WARNING and above."""

    HINT = 1
    INFORMATION = 2
    WARNING = 3
    ERROR = 4


@dataclass(frozen=True)
class Span:
    """A place in a file."""

    path: str
    line: int
    column: int | None = None
    end_line: int | None = None
    end_column: int | None = None

    def covers(self, line: int, column: int) -> bool:
        """Whether a position is in it, or at its end."""
        last = self.end_line or self.line
        if not self.line <= line <= last:
            return False
        after_start = self.column is None or line > self.line or column >= self.column
        before_end = self.end_column is None or line < last or column <= self.end_column
        return after_start and before_end

    @property
    def start(self) -> tuple[int, int]:
        """Line and column where it starts; column 0 if it has no columns."""
        return self.line, self.column or 0

    @property
    def last_line(self) -> int:
        """The line where it ends."""
        return self.end_line or self.line


@dataclass(frozen=True, order=True)
class SourceLine:
    """A line of a file, 1-based."""

    path: str
    line: int


@dataclass(frozen=True)
class Related:
    """Another place that explains the finding."""

    span: Span
    message: str


@dataclass(frozen=True)
class Finding:
    """One cause at one place, however often it came up."""

    code: str
    """`GB0170` (torch's own) or `FL201` (docs/findings)."""
    severity: Severity
    title: str
    """One line in plain words, without a full stop."""
    message: str
    """Explanation, cost and what to do: short paragraphs in plain text."""
    span: Span
    tier: Tier
    target: str
    inputs: str
    """One line: the rung and the call, as `directive on line 12: Net()(f32[4, 8])`."""
    torch: str
    link: str | None = None
    """Page of the code."""
    remedies: tuple[FindingRemedy, ...] = ()
    """What to do about it, the best first, and what is known of each."""
    cures: tuple[CallCure, ...] = ()
    """Changes of the calls or of the compile to try; `remedies` has what came of those that were."""
    related: tuple[Related, ...] = ()
    count: int = 1
    recompilations: int = 0
    """How many of the report's recompilations it counts: those of parts and of other functions with its cause, too."""
    recompile_seconds: float = 0.0
    """What those took."""
    gb_ids: tuple[str, ...] = ()
    """Further GB ids of the chain, cause excluded."""
    cost: tuple[str, ...] = ()
    """Facts: `splits forward into 2 graphs`, `3 operators run in eager`."""
    cost_us: float = 0.0
    """The estimated or measured part of a call, microseconds; 0 where it is not known."""
    fixes: tuple[str, ...] = ()
    """Stable names of quick fixes that apply: `insert_inputs`, `mark_dynamic`, ..."""
    subject: str = ""
    """What identifies it on its line, without values that vary from run to run; empty: the title."""
    data: tuple[tuple[str, str], ...] = ()
    """What a fix needs, as pairs: `("parameter", "x")`, `("dimension", "0")`."""
    cause: str = ""
    """What findings at several places share if one cure removes them all; empty for a cause of one place."""
    is_consequence: bool = False
    """Whether another finding of the same cause is about what comes first."""
    follows: Related | None = None
    """The place to fix before it, and how it follows from that: `it follows from the graph break on line 14`."""
    in_loop: str = ""
    """Of a break in a loop: what breaks and where, as `print in the loop on line 35`; empty outside of loops."""
    also_at: tuple[Finding, ...] = ()
    """Findings of the same cause at other places, by rank (findings/causes.py); empty until they are folded."""
    same_as: Span | None = None
    """Place of the finding that explains this one, which only refers to it."""
    target_path: str = ""
    """The file of the target: targets of several files may have one name."""

    @property
    def identity_in_target(self) -> tuple[object, ...]:
        """What identifies it among the findings of a target, while no text changes."""
        span = self.span
        return self.code, span.path, span.line, span.column, self.subject or self.title

    @property
    def identity(self) -> tuple[object, ...]:
        """What identifies it among the findings of all targets: what is known of its fixes holds for no other."""
        return *self.identity_in_target, self.target_path, self.target

    @property
    def hints(self) -> tuple[str, ...]:
        """What to do, in words: the remedies that may help."""
        return advised(self.remedies)

    @property
    def is_expected(self) -> bool:
        """Whether all that is said about it is what to expect: no step is known that removes it."""
        return bool(self.remedies) and not any(remedy.is_step for remedy in self.remedies)


def by_place(finding: Finding) -> tuple[str, int, bool, int, str]:
    """Order findings by place; on one line, what follows from another finding of the line comes after it."""
    span, after = finding.span, finding.follows
    follows = after is not None and (after.span.path, after.span.line) == (span.path, span.line)
    return (span.path, span.start[0], follows, span.start[1], finding.code)


def rank(finding: Finding) -> tuple[int, bool, float, str, tuple[int, int]]:
    """Order findings: the worst first, of these wrong results, then the most expensive, then by place."""
    is_right = finding.code not in WRONG_RESULTS
    return (-finding.severity, is_right, -finding.cost_us, finding.span.path, finding.span.start)
