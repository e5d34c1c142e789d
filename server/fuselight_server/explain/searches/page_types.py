"""The data of a search's page: one field is one column, or one part, of what the editor and the exports show.

Invariant: no field has a default, so that every page has every key; None is unknown. Times are those of one call, in
microseconds; moments are seconds since the search began. After a change, run `scripts/message_types.py`, which writes
the same types for the editor.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.report import TuneOutcome
from fuselight_server.explain.benchmarks.page_types import MachineFact, MemoryCell
from fuselight_server.explain.pages.page_data import PageHead


@dataclass(frozen=True)
class KnobRow:
    """A setting that the search may change."""

    name: str
    label: str
    meaning: str
    """What it changes; empty if this version does not know it."""
    bound: str
    """The part of a call that it can at most remove, as text."""
    bound_us: float | None
    ceiling: float | None
    """How many times as fast as default if it removed all of that part."""
    applies: bool
    """Whether it changes something of this target on this device."""
    tried: bool
    why: str
    """What the bound consists of, or why it was not tried."""


@dataclass(frozen=True)
class CandidateRow:
    """One configuration, in the order of the trials."""

    name: str
    """Its notation."""
    label: str
    outcome: TuneOutcome
    outcome_words: str
    why: str
    """Why it did not win, where its time does not say it; else empty."""
    us: float | None
    spread: float | None
    """0.01 is ± 1%."""
    unsteady: bool
    gain: float | None
    """Default's time divided by its time in the same rounds."""
    speedup: float | None
    """Eager's time divided by its time."""
    first_us: float | None
    peak_bytes: int | None
    memory: MemoryCell | None
    """As in a benchmark."""
    accurate: bool | None
    """None if results were not compared."""
    accuracy: str
    stage: int
    """The last stage of the race that it took part in; 0: none."""
    started_s: float | None
    ready_s: float | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class RaceSeries:
    """The rounds of one candidate."""

    name: str
    label: str
    points: tuple[tuple[float | None, float | None, int], ...]
    """Moment, time and stage of each."""


@dataclass(frozen=True)
class ComparisonBar:
    """Eager, a mode of torch.compile, or the winner, which is last."""

    name: str
    label: str
    us: float
    """Of the confirming race where one decided, of all rounds of `default` where that wins."""
    estimated: bool
    """Whether it was not in the race that decided: its time comes from its gain in rounds of both."""
    wins: bool


@dataclass(frozen=True)
class DecisionDetails:
    """The decision of a search."""

    configuration: str
    gain: float
    gain_low: float
    """Bounds of the gain (95%)."""
    gain_high: float | None
    us: float
    default_us: float
    eager_us: float | None
    """Median of all rounds."""
    accuracy: str
    fixes: tuple[str, ...]
    """Titles of fixes that the source must have."""
    graphs: int
    code: str
    """The decision as Python without Fuselight."""
    replay: str
    """The line that replays it from the tuned file."""


@dataclass(frozen=True)
class TunedPage(PageHead):
    """The page of a search."""

    partial: bool
    target: str
    path: str
    """The file as the page shows it."""
    uri: str
    file: str
    """The URI of the tuned file that has the decision; empty if none has."""
    file_shown: str
    file_problem: str
    """Why the decision is not in the file, and what to do."""
    when: str
    """UTC, ISO."""
    work: str
    inputs: tuple[str, ...]
    numerics: str
    seconds: float
    budget_seconds: float
    modes_seconds: float
    statements: tuple[str, ...]
    """The headline is first."""
    machine: tuple[MachineFact, ...]
    notes: tuple[str, ...]
    result: DecisionDetails | None
    comparison: tuple[ComparisonBar, ...]
    knobs: tuple[KnobRow, ...]
    """Largest ceiling first."""
    candidates: tuple[CandidateRow, ...]
    race: tuple[RaceSeries, ...]
