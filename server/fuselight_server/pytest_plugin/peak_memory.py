"""What the calls of a test's check allocate: pytest runs the test alone, in a process where the check is estimated.

Invariant: the estimate is that of `fuselight memory`, without an optimizer. The test's own objects are not touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fuselight.shared.owned_folders import owned_folder
from fuselight.shared.report import MemoryEstimate, MemoryPeak, StepPhase
from fuselight_server.base.formatting import format_size
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.memory.words import difference_in_words, peak_bytes, shown_peak, use_in_words
from fuselight_server.pytest_plugin.check_types import Explained
from fuselight_server.pytest_plugin.estimates_file import read_estimates
from fuselight_server.pytest_plugin.second_start import StartedTest, asked_start, run_started

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import pytest

_MAX_LINES = 5
"""Rows of a peak below a failed comparison: pytest shows eight lines of it."""


class PeakBytes(int, Explained):
    """The bytes at a peak, which explain themselves where an `assert` fails."""

    memory: PeakMemory

    def __new__(cls, value: int, memory: PeakMemory) -> PeakBytes:  # noqa: PYI034 - `Self` is younger than Python 3.10
        """A number of bytes."""
        number = super().__new__(cls, value)
        number.memory = memory
        return number

    def __repr__(self) -> str:
        """`738 MB of Net`."""
        return f"{format_size(int(self))} of {self.memory.label}"

    __str__ = int.__repr__

    def __format__(self, spec: str) -> str:
        """As the number."""
        return format(int(self), spec)

    def __reduce_ex__(self, protocol: Any) -> tuple[type[int], tuple[int]]:
        """Travel between processes as the number alone."""
        return int, (int(self),)

    def explanation(self) -> list[str]:
        """List what is allocated at the peak."""
        return self.memory.explanation()


@dataclass(frozen=True)
class PeakMemory(Explained):
    """The largest peak of the calls of a check, in eager mode and compiled."""

    label: str
    estimates: tuple[MemoryEstimate, ...]
    """Of each call."""

    @property
    def eager(self) -> PeakBytes:
        """Bytes in eager mode. Raises RuntimeError if a call was not estimated."""
        __tracebackhide__ = True
        return self._bytes("eager", ((each.eager, each.why_not_eager) for each in self.estimates))

    @property
    def compiled(self) -> PeakBytes:
        """Bytes of compiled code. Raises RuntimeError if a call was not estimated."""
        __tracebackhide__ = True
        return self._bytes("compiled", ((each.compiled, each.why_not_compiled) for each in self.estimates))

    def __repr__(self) -> str:
        """`<peak memory of Net: 738 MB compiled, 1.2 GB eager>`."""
        return f"<peak memory of {self.label}: {self._words('compiled')}, {self._words('eager')}>"

    @property
    def is_known(self) -> bool:
        """Whether every call was estimated in both forms."""
        return all(each.eager is not None and each.compiled is not None for each in self.estimates)

    def explanation(self) -> list[str]:
        """List what is allocated at the largest peak, then the difference."""
        estimate = max(self.estimates, key=peak_bytes)
        peak = shown_peak(estimate)
        rows = []
        for row in peak.held[:_MAX_LINES] if peak is not None else ():
            at = row.location
            place = f" {shown_path(at.path)}:{at.line}" if at is not None else ""
            rows.append(f"{format_size(row.bytes)} {use_in_words(row)}{place}")
        return [*rows, *filter(None, [difference_in_words(estimate)])]

    def _bytes(self, form: str, peaks: Iterable[tuple[Any, str]]) -> PeakBytes:
        __tracebackhide__ = True
        sizes = []
        for peak, why_not in peaks:
            if peak is None:
                raise RuntimeError(f"the memory of {self.label} was not estimated, {form}: {why_not}")
            sizes.append(peak.bytes)
        return PeakBytes(max(sizes), self)

    def _words(self, form: str) -> str:
        peaks = [getattr(estimate, form) for estimate in self.estimates]
        if any(peak is None for peak in peaks):
            return f"{form} not estimated"
        return f"{format_size(max(peak.bytes for peak in peaks))} {form}"


def estimate_check(item: pytest.Item, number: int, label: str, known: Mapping[int, PeakMemory]) -> PeakMemory:
    """Estimate the calls of a check of a test. Raises RuntimeError if the test cannot run alone."""
    __tracebackhide__ = True
    start = asked_start()
    if start is not None:  # of another check: what it has shown there
        sizes = start.peaks.get(str(number), [0, 0])
        peaks = [MemoryPeak(size, 0, StepPhase.FORWARD, "", None) for size in sizes]
        return PeakMemory(label, (MemoryEstimate("", training=False, eager=peaks[0], compiled=peaks[1]),))
    earlier = {
        str(key): [int(value.eager), int(value.compiled)] for key, value in known.items() if value.is_known
    }
    with owned_folder("pytest-memory") as folder:
        started = StartedTest(number, str(folder), "", {}, estimates=True, peaks=earlier)
        run_started(item, started, "the estimate", "its memory is not known. `peak_memory`")
        return PeakMemory(label, tuple(read_estimates(str(folder))))
