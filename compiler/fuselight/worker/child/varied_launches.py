"""Launches of Triton kernels in calls with other sizes, strides and signs than the directive has.

For each fault, the smallest call that shows it is looked for; of other calls, near sizes, layouts, 1 and 0 are tried.
Invariant: all of that happens in a fork. A fault that only such calls show is reported where the program surely
supports the call: its own host code has accepted it, and no tensor has kept a size that had to change.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.uninitialized import UninitializedMemory
from fuselight.adapters.triton_api.launches.record import LaunchSummary
from fuselight.capture.calls.calls import PlannedCall
from fuselight.shared.inputs.variations import SizedCall, Variation, sized_call, smaller_bases
from fuselight.shared.report import KernelFault, KernelMismatch, is_user_file
from fuselight.worker.child.kernel_calls import eager_call, mismatches_of
from fuselight.worker.child.kernel_launches import KernelLaunches, VariedResult

MAX_VARIATIONS = 16
"""Of one directive."""
MAX_SMALLER = 40
"""Calls that look for the smallest one of a fault."""
MAX_SHRUNK = 6
"""Faults of a call for which the smallest call is looked for."""
SECONDS = 3.0
"""Of processor time, after which no further call begins."""
HARD_SECONDS = 30.0
"""After which the fork is ended."""
_process_time = time.process_time  # bound before any user code runs


@dataclass
class _CallOutcome:
    """What one call showed."""

    faults: list[KernelFault]
    mismatches: list[KernelMismatch]
    launches: list[LaunchSummary]


class VariedLaunches:
    """Makes calls of a target with varied directives. Only to be used in a fork."""

    def __init__(
        self,
        launches: KernelLaunches,
        planned_of: Callable[[str], PlannedCall],
        names: Mapping[str, Any],
        *,
        is_fake: bool,
        enters_fake: bool,
    ) -> None:
        """`planned_of` plans the call of a directive. `enters_fake`: tensors are not fake yet, and have to be."""
        self._launches, self._planned_of, self._names = launches, planned_of, names
        self._is_fake, self._enters_fake = is_fake, enters_fake
        self._ends = _process_time() + SECONDS

    def vary(
        self,
        text: str,
        known: Sequence[KernelFault],
        launched: Sequence[LaunchSummary],
        *,
        discovers: bool = True,
    ) -> VariedResult:
        """Vary the directive `text`, whose call has shown the faults `known` in the launches `launched`."""
        result = VariedResult()
        sized = sized_call(text)
        if sized is None:
            return result
        for at, fault in enumerate(known[:MAX_SHRUNK]):
            smaller = self._smallest(sized, fault)
            if smaller is not None:
                result.smallest[str(at)] = smaller[0]
        if discovers:
            self._discover(sized, known, launched, result)
        return result

    def _discover(
        self,
        sized: SizedCall,
        known: Sequence[KernelFault],
        launched: Sequence[LaunchSummary],
        result: VariedResult,
    ) -> None:
        lines = {_line(fault) for fault in known}
        places = set()  # one fault of a line: the others mostly follow from it
        discovered: list[tuple[KernelFault, Variation]] = []
        for variation in itertools.islice(sized.variations(), MAX_VARIATIONS):
            if self.is_over():
                break
            shown = self.call(variation.text)
            if shown is None:
                result.refused += (variation.text,)
                continue
            result.calls += (variation.text,)
            for fault in shown.faults:
                if fault.location in places or _line(fault) in lines:
                    continue
                if self._is_proved(fault, variation, shown, launched):
                    places.add(fault.location)
                    discovered.append((fault, variation))
            if shown.mismatches and not result.mismatches and not shown.faults:
                result.mismatches = tuple(
                    replace(
                        mismatch,
                        is_of_variation=True,
                        has_other_strides=variation.is_of_strides,
                        has_other_signs=variation.kind == "negative",
                    )
                    for mismatch in shown.mismatches
                    # The reference may not be for such values.
                    if variation.kind != "negative" or math.isfinite(mismatch.expected)
                )
        for fault, variation in discovered:
            varied = sized_call(variation.text)
            smaller = self._smallest(varied, fault) if varied is not None else None
            inputs, shown_fault = smaller or (variation.text, fault)
            result.faults += (
                replace(
                    shown_fault,
                    inputs=inputs,
                    is_of_variation=True,
                    has_other_strides=variation.is_of_strides,
                ),
            )

    def _is_proved(
        self, fault: KernelFault, variation: Variation, shown: _CallOutcome, launched: Sequence[LaunchSummary]
    ) -> bool:
        """Whether a fault that only a varied call shows is one of the kernel, and not of the call."""
        if not is_user_file(fault.location.path, self._launches.roots) or fault.kind == "sectors":
            return False
        if variation.kind in {"one", "zero"} and not fault.masked:
            return False  # without a mask, the kernel may be for larger sizes
        if variation.is_of_strides:
            return bool(fault.argument)
        if _same_sizes(shown.launches, launched):
            return (
                False  # the kernel does not learn the size: it is for a single one, or reads it from memory
            )
        if not variation.is_common and _same_launches(shown.launches, launched):
            return False  # no launch depends on the size that has changed: the tensors may not fit together
        return any(
            before.kernel == after.kernel == fault.kernel
            and fault.argument in after.shapes
            and before.shapes.get(fault.argument) != after.shapes[fault.argument]
            for before, after in zip(launched, shown.launches, strict=False)
        )

    def _smallest(self, sized: SizedCall, fault: KernelFault) -> tuple[str, KernelFault] | None:
        """The call with the smallest sizes, as far as they were tried, that shows a fault; None if none is smaller."""
        search = _SmallestCall(self, sized, fault)
        for at in sorted(range(len(sized.groups)), key=lambda at: -sized.groups[at].base):
            search.shrink(at)
        return (sized.with_bases(search.bases), search.fault) if search.bases else None

    def is_over(self) -> bool:
        """Whether no further call may begin."""
        return _process_time() > self._ends

    def call(self, text: str) -> _CallOutcome | None:
        """Make one call; None if the program refuses it."""
        launches = self._launches
        launches.start_again()
        summaries: list[LaunchSummary] = []
        launches.log.summaries = summaries
        try:
            planned = self._planned_of(text)
            with settings.fake_tensors() if self._enters_fake else contextlib.nullcontext():
                memory = None if self._is_fake else UninitializedMemory(launches.note_unwritten)
                launches.log.uninitialized = memory
                prepared, outputs = eager_call(planned, memory)
                mismatches = []
                if memory is not None and prepared.options.reference is not None and not launches.unknown:
                    mismatches = list(mismatches_of(planned, self._names, outputs, memory.last_launch))
        except (Exception, SystemExit):  # noqa: BLE001 - user code may raise anything
            return None
        finally:
            launches.log.uninitialized = None
        return _CallOutcome(list(launches.faults), mismatches, summaries)


class _SmallestCall:
    """Looks for the smallest sizes that show a fault."""

    def __init__(self, calls: VariedLaunches, sized: SizedCall, fault: KernelFault) -> None:
        self._calls, self._sized, self.fault = calls, sized, fault
        self.bases: dict[int, int] = {}
        """Of the groups that were made smaller."""
        self._left = MAX_SMALLER

    def shrink(self, at: int) -> None:
        """Make the sizes of one group smaller."""
        sizes = smaller_bases(self._sized.groups[at])
        overflows = self.fault.kind == "overflow"  # then each larger size shows it, too
        below = 0
        for base in reversed(sizes) if overflows else sizes:
            is_shown = self._shows(at, base)
            if not is_shown:
                below = base
            if is_shown is not overflows:
                break
        while (overflows or at in self.bases) and self._may_try():
            smallest = self.bases.get(at, self._sized.groups[at].base)
            if smallest - below <= 1:
                break
            middle = (below + smallest) // 2
            if not self._shows(at, middle):
                below = middle

    def _may_try(self) -> bool:
        return self._left > 0 and not self._calls.is_over()

    def _shows(self, at: int, base: int) -> bool:
        if not self._may_try():
            return False
        self._left -= 1
        shown = self._calls.call(self._sized.with_bases({**self.bases, at: base}))
        same = (
            [other for other in shown.faults if _key(other) == _key(self.fault)] if shown is not None else []
        )
        if same:
            self.bases[at], self.fault = base, same[0]
        return bool(same)


def _line(fault: KernelFault) -> tuple[object, ...]:
    return fault.location, fault.kind


def _key(fault: KernelFault) -> tuple[object, ...]:
    return fault.location, fault.kind, fault.access, fault.argument


def _same_sizes(launches: Sequence[LaunchSummary], others: Sequence[LaunchSummary]) -> bool:
    """Whether launches get the same grids and numbers."""
    return [(launch.grid, launch.numbers) for launch in launches] == [
        (launch.grid, launch.numbers) for launch in others
    ]


def _same_launches(launches: Sequence[LaunchSummary], others: Sequence[LaunchSummary]) -> bool:
    def facts(summaries: Sequence[LaunchSummary]) -> Iterator[tuple[object, ...]]:
        for launch in summaries:
            written = {name: launch.shapes.get(name) for name in sorted(launch.written)}
            yield launch.kernel, launch.grid, written

    return list(facts(launches)) == list(facts(others))
