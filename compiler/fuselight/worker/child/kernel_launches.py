"""Launches of the user's Triton kernels in a run on a machine without a GPU.

Invariant: a launch whose values are unknown has a note on the line that launches it, once, and an access outside of a
tensor is in the report once for each line of a kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

from fuselight.adapters.torch_api.cuda_operators import function_of
from fuselight.adapters.torch_api.uninitialized import Unwritten
from fuselight.adapters.triton_api.launches.record import AccessFault, AddressReport, LaunchLog, LaunchOutcome
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import (
    AddressCheckResult,
    KernelFault,
    KernelMismatch,
    Location,
    Note,
    OpenAccess,
    Problem,
    Stack,
    TuningChange,
    VariedCalls,
    is_user_file,
)
from fuselight.worker.child.own_kernels import OwnKernels

MAX_FAULTS = 100
"""Maximum number of faults of a report."""
MAX_CHECKS = 100
"""Maximum number of address checks of a report."""


@dataclass
class VariedResult:
    """What further calls of a directive showed."""

    smallest: dict[str, str] = field(default_factory=dict)
    """By position of a fault of the directive's own call: the smallest call that shows it, if one is smaller."""
    calls: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    faults: tuple[KernelFault, ...] = ()
    mismatches: tuple[KernelMismatch, ...] = ()


class KernelLaunches:
    """What is known of the launches of a run."""

    def __init__(self, roots: Sequence[str]) -> None:
        self.roots = roots
        self.log = LaunchLog(self._heard, stacks.running_lines, self._note_uncompiled)
        self.problems: list[Problem] = []
        self.notes: list[Note] = []
        self.faults: list[KernelFault] = []
        self.own = OwnKernels()
        """The program's own kernels that were launched, with what they compile to."""
        self.checks: list[AddressCheckResult] = []
        self.mismatches: list[KernelMismatch] = []
        self.tunings: list[TuningChange] = []
        self.varied: list[VariedCalls] = []
        self.shrunk = 0
        """How many of `faults` have the smallest call that shows them, if one was found."""
        self._known: set[object] = set()

    @property
    def unknown(self) -> str:
        """Why results of this run may not be those of a GPU, as a clause; empty where they are."""
        if self.notes:
            return self.notes[0].text
        for fault in self.faults:
            if fault.is_of_variation:
                continue
            if fault.kind in {"bounds", "descriptor"}:
                return f"the Triton kernel `{fault.kernel}` accesses memory outside of a tensor"
            if fault.kind == "race":
                return f"the Triton kernel `{fault.kernel}` has a race"
        return ""

    def start_again(self) -> None:
        """Drop what is known, and what decides which launches are computed: for a call by itself, in a fork."""
        self.faults, self.checks, self.mismatches, self.notes = [], [], [], []
        self._known = set()
        log = self.log
        log.checked, log.slow = set(), set()
        log.seconds = log.address_seconds = 0.0

    def _heard(self, outcome: LaunchOutcome, frame: FrameType | None) -> None:
        stack = stacks.running_lines(frame)
        place = next((at for at in reversed(stack) if is_user_file(at.path, self.roots)), None)
        if outcome.unknown:
            self._note_unknown(outcome, place)
        if outcome.addresses is not None:
            self._add_check(outcome, outcome.addresses, stack)
        for fault in outcome.faults:
            self._add_fault(outcome, fault, stack)
        if outcome.tuning is not None:
            self.tunings.append(replace(outcome.tuning, launch=stack))

    def note_tuning(self, change: TuningChange) -> None:
        """Take what the timed runs of an autotuner change, from the line of its launch that runs now."""
        self.tunings.append(replace(change, launch=stacks.running_lines(sys._getframe(1))))  # noqa: SLF001 - the launch's

    def note_unchecked(self, operator: str, implementation: Any, error: Exception) -> None:
        """Note that launches of an operator of the program were not checked, as it does not run on fake tensors."""
        code = getattr(function_of(operator, implementation), "__code__", None)
        if code is None:
            return
        words = (str(error).splitlines() or [""])[0][:200]
        reason = (
            f"its implementation raises {type(error).__name__} on fake tensors{': ' if words else ''}{words}"
        )
        report = AddressReport(0, 0, is_complete=False, open=(("", 0, reason),))
        stack = stacks.running_lines(sys._getframe(1))  # noqa: SLF001 - where the operator is called
        self._add_check(LaunchOutcome(operator, code.co_filename, code.co_firstlineno), report, stack)

    def note_unwritten(self, unwritten: Unwritten) -> None:
        """Take elements that are used after a launch, and that nobody has written."""
        outcome, stack = unwritten.launch
        path, line = unwritten.place
        lost = (outcome.kernel, unwritten.name)  # what was written outside of it may have been meant for them
        if any(
            fault.kind in {"bounds", "descriptor", "overflow"}
            and fault.access != "load"
            and (fault.kernel, fault.argument) == lost
            for fault in self.faults
        ):
            return
        where = ("store", path, line, unwritten.name, unwritten.first, unwritten.elements, True, (0, 0, 0))
        fault = AccessFault(*where, kind="unwritten", count=unwritten.missing)
        self._add_fault(outcome, fault, stack)

    def _add_fault(self, outcome: LaunchOutcome, fault: AccessFault, stack: Stack) -> None:
        key = (fault.path, fault.line, fault.kind, fault.access, fault.argument)
        if key in self._known or len(self.faults) >= MAX_FAULTS:
            return
        self._known.add(key)
        at = Location(fault.path, fault.line) if fault.line else Location(outcome.path, outcome.line)
        shared = {name: value for name, value in vars(fault).items() if name not in {"path", "line"}}
        self.faults.append(KernelFault(outcome.kernel, at, launch=stack, **shared))

    def accept_varied(
        self, known: Sequence[KernelFault], result: VariedResult, directive: Location | None
    ) -> None:
        """Take what calls with other sizes showed, of which some look for the smallest one of the faults `known`."""
        first = len(self.faults) - len(known)
        for at, inputs in result.smallest.items():
            place = first + int(at)
            self.faults[place] = replace(self.faults[place], inputs=inputs)
        self.faults.extend(result.faults[: MAX_FAULTS - len(self.faults)])
        self.mismatches.extend(result.mismatches)
        self.shrunk = len(self.faults)
        if result.calls or result.refused:
            self.varied.append(VariedCalls(directive, result.calls, result.refused))

    def _add_check(self, outcome: LaunchOutcome, report: AddressReport, stack: Stack) -> None:
        key = (outcome.kernel, outcome.path, stack, report)
        if key in self._known or len(self.checks) >= MAX_CHECKS:
            return
        self._known.add(key)
        self.checks.append(
            AddressCheckResult(
                outcome.kernel,
                Location(outcome.path, outcome.line),
                stack,
                report.programs,
                report.total,
                report.is_complete,
                tuple(
                    OpenAccess(Location(path, line) if line else None, reason)
                    for path, line, reason in report.open
                ),
            )
        )

    def _note_uncompiled(self) -> None:
        if not self.problems:
            self.problems.append(
                Problem(
                    "inductor",
                    "what Inductor makes of graphs that launch Triton kernels",
                    "it needs a GPU to compile them for: here they ran as they were captured",
                )
            )

    def _note_unknown(self, outcome: LaunchOutcome, place: Location | None) -> None:
        key = (outcome.kernel, outcome.path, place and (place.path, place.line))
        if key not in self._known:
            self._known.add(key)
            text = f"values that the Triton kernel `{outcome.kernel}` writes are not known: {outcome.unknown}"
            self.notes.append(Note("kernel_values_unknown", text, place))
