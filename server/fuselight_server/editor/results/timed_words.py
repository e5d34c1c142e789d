"""What is said of the last benchmark or search of a target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fuselight_server.editor.results.benchmarks import MeasuredResult
from fuselight_server.editor.results.run_ends import RunEnd
from fuselight_server.editor.results.target_result import CANCELED, ENDED_EARLY
from fuselight_server.editor.results.tunings import TuningResult
from fuselight_server.explain.benchmarks import words


@dataclass(frozen=True)
class TimedWords:
    """The words in which benchmarks and searches differ."""

    lens: str
    """Title of the lens that starts a run: `Benchmark`."""
    verb: str
    """`Benchmarking`."""
    noun: str
    """`benchmark`."""
    purpose: str
    """What the lens is pressed for: `measure it`."""

    def last(self, name: str, end: RunEnd | None, kept: MeasuredResult | TuningResult | None) -> str:
        """Why the last run has no result, or how to start one; else empty."""
        if end is not None:
            return f"The last {self.noun} has no result: {end.words}. Press {self.lens} above {name} to start it again."
        if kept is None:
            return f"Press {self.lens} above {name} to {self.purpose}."
        return "" if kept.has_data else f"The last {self.noun} failed: {_failure_of(kept)}"

    def notes(
        self, shown: MeasuredResult | TuningResult, kept: MeasuredResult | TuningResult
    ) -> Iterator[str]:
        """Yield what ran at the same time as what is `shown`, and that the last run, `kept`, failed after it."""
        if shown is not kept and not kept.unfinished:
            yield f"the {self.noun} after this one failed: {_failure_of(kept)}"
        if shown.unfinished in {CANCELED, ENDED_EARLY}:
            yield shown.unfinished
        yield from shown.notes


def _failure_of(kept: MeasuredResult | TuningResult) -> str:
    failed = next(iter(kept.failures), None)
    return words.failed(failed) if failed is not None else "nothing was measured"
