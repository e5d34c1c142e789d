"""A document with all that is known of it at one moment: what lenses, hovers, menus and reports read.

Invariant: a `Snapshot` is made in one step of the event loop and is not changed, so that two features that read the
same one cannot disagree. Capabilities of the client arrive as plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fuselight_server.base.settings import Settings
from fuselight_server.editor.messages.client_features import ClientFeatures
from fuselight_server.editor.results.accuracy import AccuracyResult
from fuselight_server.editor.results.benchmarks import MeasuredResult
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.failed_tests import FailedTests
from fuselight_server.editor.results.jobs import JobResult, OpenJobs
from fuselight_server.editor.results.kernels import KernelResult
from fuselight_server.editor.results.memory import MemoryResult
from fuselight_server.editor.results.predictions import Prediction
from fuselight_server.editor.results.run_ends import RunEnds
from fuselight_server.editor.results.target_result import Results
from fuselight_server.editor.results.tunings import TuningResult
from fuselight_server.execution.runs.keys import Key
from fuselight_server.execution.runs.queue import Running
from fuselight_server.source.document import SourceDocument
from fuselight_server.source.notebooks.module import NotebookModule
from fuselight_server.source.reading import Reading


@dataclass
class Document:
    """One open document."""

    uri: str
    path: str
    """Absolute path for a file; the URI itself where a run has no file to import."""
    version: int
    source: SourceDocument
    runnable: bool
    """Whether it is a file on disk; an untitled buffer or notebook is none."""
    module: NotebookModule | None = None
    """For a notebook: its cells, whose lines are those of the source."""
    waits: bool = False
    """Whether a save ran nothing, because the text did not parse, and it has not parsed since."""

    def reading(self) -> Reading:
        """Read the source as it is now."""
        return self.source.reading()

    def line(self, number: int) -> str | None:
        """Text of the 1-based line without its end; None beyond the last one."""
        if not 0 < number <= self.source.line_count:
            return None
        return self.source.line_bytes(number).decode("utf-8", "surrogatepass")


class ResultsByTier:
    """What has results, each tier's by itself."""

    results: Results

    @property
    def captures(self) -> dict[Key, CaptureResult]:
        """Results of tier capture."""
        return self.results.of(CaptureResult)

    @property
    def kernels(self) -> dict[Key, KernelResult]:
        """Results of tier kernels."""
        return self.results.of(KernelResult)

    @property
    def measured(self) -> dict[Key, MeasuredResult]:
        """Benchmarks."""
        return self.results.of(MeasuredResult)

    @property
    def tunings(self) -> dict[Key, TuningResult]:
        """Searches for the fastest configuration."""
        return self.results.of(TuningResult)

    @property
    def comparisons(self) -> dict[Key, AccuracyResult]:
        """Comparisons of results with eager mode."""
        return self.results.of(AccuracyResult)

    @property
    def estimates(self) -> dict[Key, MemoryResult]:
        """Estimates of memory."""
        return self.results.of(MemoryResult)


@dataclass(frozen=True)
class Snapshot(ResultsByTier):
    """One document and everything that features may say about it."""

    document: Document
    reading: Reading
    settings: Settings
    results: Results
    """Results of every tier that say something about this file."""
    running: Mapping[Key, Running]
    client: ClientFeatures
    can_run: bool
    """Whether a run may be offered: the file is on disk and the workspace is trusted."""
    waiting: frozenset[Key] = frozenset()
    """Runs of this file's targets that wait for other runs."""
    asked: frozenset[Key] = frozenset()
    """Runs of this file's targets that wait for an answer of the user."""
    background: frozenset[Key] = frozenset()
    """Runs of this file's targets, waiting or in flight, that give way to whatever the user asks for."""
    run_ends: RunEnds = field(default_factory=RunEnds)
    """Why the newest runs of this file's targets have no result."""
    predictions: tuple[Prediction, ...] = ()
    """What edits of any file are predicted to change for this file's targets."""
    predicted: Mapping[str, Reading] = field(default_factory=dict)
    """The open files that these predictions concern, by path: their comments ignore findings."""
    jobs: tuple[JobResult, ...] = ()
    """The open jobs that compiled something of this file."""
    first_fixes: Mapping[Key, str] = field(default_factory=dict)
    """The verified fix of the line to fix first, by target: `Use torch.where: verified`."""
    on_choice: frozenset[Key] = frozenset()
    """Targets whose fixes are verified only once the user chooses one."""

    @property
    def path(self) -> str:
        """The document's path."""
        return self.document.path


@dataclass(frozen=True)
class ResultsView(ResultsByTier):
    """All results of one moment, for what is shown of any file, open or not."""

    results: Results
    predictions: Mapping[tuple[Key, str], Prediction]
    """By the target, and the edited file."""
    jobs: OpenJobs
    failed_tests: FailedTests
    document: Callable[[str], Document | None]
    """The open document of a path."""
    settings_of: Callable[[str], Settings]
    """The settings of a file's folder."""
    read_line: Callable[[str, int], str | None]
    """A 1-based line of a file, as the editor has it, else as it is on the disk."""
