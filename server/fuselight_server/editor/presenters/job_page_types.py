"""The data of a job's page: one field is one column, or one part, of what the editor shows.

Invariant: no field has a default, so that every page has every key; None is unknown. Times are in seconds, but for the
steps of compiles, which are in microseconds as on a benchmark's page. Lists are bounded, and say how much is left out.
After a change, run `scripts/message_types.py`, which writes the same types for the editor.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight_server.explain.benchmarks.page_types import MachineFact, PagePlace, StepRow
from fuselight_server.explain.pages.page_data import PageHead


@dataclass(frozen=True)
class JobPlace:
    """A line of the job."""

    place: PagePlace | None
    """Where it is here; None if its file is not in the source folders."""
    shown: str
    """`train.py:12`, or the path in the job."""


@dataclass(frozen=True)
class JobFindingRow:
    """A finding of the job, the worst first."""

    severity: str
    code: str
    title: str
    details: str
    """Its explanation, cost and what to do."""
    at: JobPlace
    state: str
    """Why the line here may not be the line that ran; else empty."""


@dataclass(frozen=True)
class JobRankRow:
    """What one rank did, or what each rank of a group did."""

    label: str
    ranks: int
    compiles: int
    recompilations: int
    graphs: int
    graph_breaks: int
    cache_hits: int
    cache_misses: int
    cache_bypasses: int
    seconds: float | None
    """Compile time; of a group, that of its slowest rank."""
    slowest: str
    """The most expensive compile, as `forward, 4.1 s`."""
    slowest_at: JobPlace | None
    is_slowest: bool
    """Whether no rank compiled for longer."""
    problems: str
    """`1 compile unfinished`; empty if there is none."""


@dataclass(frozen=True)
class JobRanks:
    """The ranks of the job."""

    count: int
    world_size: int | None
    missing: str
    """Ranks without a log; empty if there is none."""
    groups: tuple[JobRankRow, ...]
    """Ranks with equal compiles, the largest group first."""
    rows: tuple[JobRankRow, ...]
    more: int
    """Ranks that `rows` leaves out."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class JobRelatedLine:
    """A further line of a difference."""

    at: JobPlace
    text: str


@dataclass(frozen=True)
class JobDifference:
    """A place where ranks differ, in order of time."""

    message: str
    at: JobPlace | None
    is_exact: bool
    groups: tuple[MachineFact, ...]
    """Ranks, and what they did."""
    seconds: float | None
    related: tuple[JobRelatedLine, ...]


@dataclass(frozen=True)
class JobWait:
    """The collective in which ranks were, from torch's flight recorder; or a compile that ranks began later."""

    message: str
    at: JobPlace | None


@dataclass(frozen=True)
class JobSpan:
    """A compile on the timeline, seconds after its start."""

    name: str
    start: float
    seconds: float | None
    """None: the log ends before it."""
    depth: int
    compile_id: str | None


@dataclass(frozen=True)
class JobTimelineRow:
    """The compiles of one rank."""

    label: str
    spans: tuple[JobSpan, ...]
    is_cut: bool


@dataclass(frozen=True)
class JobTimeline:
    """All ranks over one clock."""

    seconds: float
    rows: tuple[JobTimelineRow, ...]
    more: int


@dataclass(frozen=True)
class JobCacheTotal:
    """All lookups in one cache."""

    cache: str
    hits: int
    misses: int
    bypasses: int
    saved: float | None
    lost: float | None


@dataclass(frozen=True)
class JobCacheRow:
    """Lookups that cost a compile, the most expensive first; those of ranks that differ in nothing else are one row."""

    cache: str
    state: str
    process: str
    function: str
    at: JobPlace | None
    lost: float | None
    """Of the process that lost most."""
    causes: tuple[str, ...]
    cures: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class JobCaches:
    """What the caches did."""

    totals: tuple[JobCacheTotal, ...]
    rows: tuple[JobCacheRow, ...]
    more: int
    compared_with: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class JobStage:
    """Time of one stage of the start."""

    stage: str
    seconds: float


@dataclass(frozen=True)
class JobStartLine:
    """What the start spent on one function, or on what one line imports."""

    function: str
    """The function, or the text for imports: `imports torch`."""
    at: JobPlace | None
    compiles: int
    """0 for imports."""
    seconds: float
    with_nested: float | None
    """Of imports: with the lines of the user's files that they run, which have rows of their own; None without any."""
    stages: tuple[JobStage, ...]
    saved: float | None


@dataclass(frozen=True)
class JobStart:
    """The start of the process that compiled for longest."""

    process: str
    seconds: float
    stages: tuple[JobStage, ...]
    lines: tuple[JobStartLine, ...]
    more: int
    saved: float | None
    """What a second start with the same caches would not do: never imports."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class JobChange:
    """What differs from the other job."""

    kind: str
    """`new finding`, `recompilations`, `compile time`, ..."""
    is_regression: bool
    text: str
    at: JobPlace | None
    before: str
    after: str


@dataclass(frozen=True)
class JobChanges:
    """This job against another one, regressions first."""

    name: str
    statements: tuple[str, ...]
    changes: tuple[JobChange, ...]
    more: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class JobChoice:
    """Another open job."""

    id: str
    label: str


@dataclass(frozen=True)
class JobPage(PageHead):
    """All that the page of a job shows."""

    job: str
    source: str
    """URI of the log or folder that it was opened from."""
    when: str
    statements: tuple[str, ...]
    facts: tuple[MachineFact, ...]
    notes: tuple[str, ...]
    findings: tuple[JobFindingRow, ...]
    more_findings: int
    ranks: JobRanks | None
    differences: tuple[JobDifference, ...]
    more_differences: int
    waits: tuple[JobWait, ...]
    timeline: JobTimeline | None
    caches: JobCaches | None
    start: JobStart | None
    steps: tuple[StepRow, ...]
    """The phases of the compiles of one process."""
    steps_of: str
    """That process."""
    others: tuple[JobChoice, ...]
    against: str
    """Id of the job that it is compared with; empty for none."""
    comparison: JobChanges | None
