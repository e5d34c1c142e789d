"""Makes the further calls of a verification (verification_cases): those of the old text, then the same of the new one.

Invariant: both processes do the same up to each call, so that what the user's files keep is the same before it. A call
that the old text refuses with an exception says nothing but the type of the exception. The calls are one ordered list:
what there is no time for is left for another round, in processes of their own, so that no clock decides what is
compared. A call that takes far longer than that of the old text is a difference.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fuselight.adapters.torch_api import settings
from fuselight.capture.calls.calls import Prepared
from fuselight.shared.protocol import VerifyRequest
from fuselight.shared.report import Aspect, CallComparison, CaseFamily, Difference, Verification
from fuselight.worker.child.request_results import VerifiedCalls
from fuselight.worker.live.call_records import CallRecord, without_printed
from fuselight.worker.live.record_comparison import (
    MeasuredRounding,
    agree_in_float64,
    compare_records,
    has_float32,
    has_vanishing_gradients,
)
from fuselight.worker.processes.deadline import DeadlineExceededError, deadline
from fuselight.worker.verify.case_caller import CaseCaller, NothingToCompareError
from fuselight.worker.verify.case_folder import CaseFolder, RecordedCase
from fuselight.worker.verify.context_cases import ContextPlan, plan
from fuselight.worker.verify.verification_cases import (
    Case,
    cases_of,
    compiled_cases,
    first_of_families,
    in_float64,
)

_VERSIONS = 64
"""Versions of one function that are compiled: many calls have other sizes and other numbers of dimensions."""
_ENDLESS, _SLOWER = 10.0, 20.0
"""Seconds that each call may take, and how many times those of the old text: a compile may take long."""
_COMPILES = 6.0
"""How many times longer a compiled call may take: on a machine with other work, a compile took 12 seconds."""
_MAX_RAISED = 4
"""Most calls of a family that are compiled for one type of exception."""
_WRAPPED = "RuntimeError"
"""The exception of operators: that of compiled code, TorchRuntimeError, is one."""
_FLOAT64_SHARE = 0.25
"""Time for calls in float64, in addition and as a part of the time for the further calls."""
_perf_counter = time.perf_counter  # bound before any user code runs


@dataclass(frozen=True)
class CaseCall:
    """A further call."""

    case: Case
    compiled: bool = False
    needs_exception: bool = False
    """Whether it is made only if the old text raises an exception in the case, to compare that."""


@dataclass(frozen=True)
class NearRounding:
    """A call whose differences are near rounding: a call in float64 decides."""

    place: int
    """Index of its comparison."""
    index: int
    case: Case
    single: CallRecord
    """The call of the old text in eager mode."""
    differences: tuple[Difference, ...]
    """Its differences, as rounding."""
    vanishing_only: bool
    """Whether only gradients near zero differ, which calls in eager mode decide."""


class FurtherCalls:
    """The further calls of one text."""

    def __init__(self, result: VerifiedCalls, request: VerifyRequest, caller: CaseCaller) -> None:
        """`caller` makes the calls of the text."""
        self._result = result
        self._request = request
        self._caller = caller
        self._folder = CaseFolder(request)
        self._end = _perf_counter() + request.seconds
        self._printed_varies = self._folder.printed_varies
        self._near: list[NearRounding] = []
        self._plan = ContextPlan()
        self._left_out = 0
        """Compiled calls that are not made, as the request bounds their number."""

    def make(self) -> None:
        """Record the calls, or compare them with those that are recorded."""
        self._result.verification = Verification()
        try:
            calls = self._planned()
            with settings.recompile_limit_of(_VERSIONS):  # else the last ones would run in eager mode
                if self._request.records:
                    self._record(calls)
                else:
                    self._compare(calls)
        except NothingToCompareError as why:
            self._result.verification = replace(self._result.so_far, refused=str(why))

    def _planned(self) -> list[CaseCall]:
        """The calls: a few are compiled, after the most ordinary ones."""
        settings = self._request.settings
        prepared = self._prepared()
        cases = [
            *cases_of(prepared, settings=settings),
            *self._plan.cases(prepared, self._caller.namespaces),
        ]
        compiled = compiled_cases(cases, settings=settings)
        ids = set(map(id, compiled))
        others = [case for case in cases if settings and id(case) not in ids and case.grad is None]
        most = self._request.most_compiled
        if most is not None and len(compiled) > most:
            self._left_out = len(compiled) - most
            compiled, others = first_of_families(compiled, most), []
        calls: list[CaseCall] = []
        for families in (_ORDINARY, _NON_FINITE, _SPECIAL, _LAST):
            if families is _LAST:
                calls += [CaseCall(case, compiled=True, needs_exception=True) for case in others]
            calls += [CaseCall(case) for case in cases if case.family in families]
            calls += [CaseCall(case, compiled=True) for case in compiled if case.family in families]
        return calls

    def _prepared(self) -> Prepared:
        """Build the first call; the run of the old text finds what can be varied."""
        request = self._request
        if not request.records or request.first or not (request.names or request.sizes):
            self._plan = self._folder.plan()
            return self._caller.prepared()
        self._plan, prepared = plan(
            self._caller.prepared, request.names, request.sizes, self._caller.namespaces
        )
        self._folder.add_plan(self._plan)
        return prepared

    def _record(self, calls: list[CaseCall]) -> None:
        """Make the calls of this round, and record each; the first that does not end in time ends the round.

        A round is a process of its own, so it reads from the folder what earlier rounds have recorded: which eager
        calls raised, and how many compiled calls were spent on each exception. Calls in float64 come last, so that they
        cannot take the time of the calls that they only refine.
        """
        first = self._request.first
        known = self._folder.done()
        raised: dict[int, str] = {}
        late = {
            id(call.case)
            for index, call in enumerate(calls[:first])
            if index in known and known[index].is_late
        }
        counts: Counter[tuple[CaseFamily, str]] = Counter()
        for index, call in enumerate(calls[:first]):  # what the rounds before this one have counted
            before = known.get(index)
            if before is not None and before.is_made and not call.compiled:
                raised[id(call.case)] = before.raised
            elif before is not None and before.is_made and raised.get(id(call.case)):
                counts[call.case.family, raised[id(call.case)]] += 1
        single: dict[int, Case] = {}
        vanishing: dict[int, Case] = {}
        for index, call in enumerate(calls[first:], first):
            case, compiled = call.case, call.compiled
            if self._is_late():
                break
            exception = raised.get(id(case), "")
            start = _perf_counter()
            try:
                with deadline(self._end - start + self._least):
                    # A compiled call is compared with the one in eager mode, which has no record if it was late.
                    is_made = not compiled or (
                        id(case) not in late and self._is_compiled(call, exception, counts)
                    )
                    record = (
                        self._caller.call(case, compiled=compiled, is_first=bool(exception))
                        if is_made
                        else None
                    )
            except DeadlineExceededError:  # what it leaves behind, the other process would not have
                self._folder.add_late(index, _perf_counter() - start)
                break
            if record is not None and not compiled:
                raised[id(case)] = record.raised
            if record is not None and compiled and not record.raised and has_float32(record):
                single[index] = case
            elif record is not None and not compiled and has_vanishing_gradients(record):
                vanishing[index] = case
            self._folder.note_done(index, record, _perf_counter() - start)
        self._result.verification = replace(self._result.so_far, lines_run=self._caller.lines.lines_run)
        self._record_in_float64({**single, **vanishing})

    def _is_compiled(self, call: CaseCall, exception: str, counts: Counter[tuple[CaseFamily, str]]) -> bool:
        """Whether to make a compiled call of the old text. `exception`: that of its eager call."""
        if not exception:
            return not call.needs_exception
        if not self._request.settings or exception == _WRAPPED:
            return False
        counts[call.case.family, exception] += 1
        return counts[call.case.family, exception] <= _MAX_RAISED

    def _record_in_float64(self, cases: Mapping[int, Case]) -> None:
        """Make calls of the old text in float64 and in eager mode, after all others."""
        end = _perf_counter() + _FLOAT64_SHARE * self._request.seconds
        for index, case in cases.items():
            left = end - _perf_counter()
            if left <= 0:
                return
            try:
                with deadline(left):
                    record = self._caller.call(in_float64(case), compiled=False)
            except DeadlineExceededError:
                return
            if record is not None:
                self._folder.add_in_float64(index, record)

    def _compare(self, calls: list[CaseCall]) -> None:
        """Make the recorded calls in their order, and compare each; the first that does not end in time ends the round.

        A call that timed out is not skipped: the two texts would make the next calls in different states. How many
        calls a round reaches depends on the load of the machine, so the next round continues there: when a clock
        decided, one fix was `same results` under load and had an exception otherwise.
        """
        done, first = self._folder.done(), self._request.first
        eager = {id(call.case): index for index, call in enumerate(calls) if not call.compiled}
        refused: dict[str, None] = {}
        late: list[CaseCall] = []
        for index, call in enumerate(calls[first:], first):
            case, compiled = call.case, call.compiled
            known = done.get(index)
            self._note(refused, late, calls, index)  # for a report of a run that ends in this call
            if known is None or known.first != first or self._is_late():
                break
            if known.is_late:
                late.append(call)
                continue
            before = done.get(eager.get(id(case), index))
            exception = before.raised if compiled and before is not None else ""
            if compiled and not known.is_made:  # the old text refuses it in eager mode, and did not make it
                continue
            try:
                with deadline(self._longest(known, compiled=compiled)):
                    record = self._caller.call(case, compiled=compiled, is_first=bool(exception))
            except DeadlineExceededError:  # the calls after it would not be made in the same state
                slower = self._slower(known, compiled=compiled)
                self._add_differences(case, (slower,), compiled=compiled)
                return
            if not known.is_made:  # its inputs cannot be made
                continue
            old = [self._folder.load(number) for number in dict.fromkeys((eager[id(case)], index))]
            if old[0].raised and record is not None and record.raised in _exceptions(old):
                refused[case.name] = None
            else:
                self._add(case, record, old, compiled=compiled, index=index)
        else:
            index = len(calls)
        self._note(refused, late, calls, index)
        if index == len(calls):
            so_far = self._result.so_far
            left_out = f"{self._left_out} more compiled call{'s' * (self._left_out > 1)}"
            not_reached = (
                *so_far.not_reached,
                *self._not_varied(calls, done),
                *([left_out] if self._left_out else ()),
            )
            self._result.verification = replace(so_far, not_reached=not_reached)
        self._decide_in_float64()

    def _not_varied(self, calls: Sequence[CaseCall], done: Mapping[int, RecordedCase]) -> Iterator[str]:
        """Name what changed lines depend on and what had one value in all calls that the old text accepts."""
        varied = {
            call.case.varies
            for index, call in enumerate(calls)
            if index in done and done[index].is_made and not done[index].raised
        }
        for name in self._request.names:
            is_relevant = name.is_changed and not name.is_derived and name.name in self._plan.names
            is_constant = name.name in self._plan.constants
            if is_constant or (is_relevant and name.name not in varied):
                yield f"another `{name.name}`"

    def _decide_in_float64(self) -> None:
        """Make the calls whose differences are near rounding in float64, after all others.

        What the old text computes in float64 and eager mode, the compiled new text must compute, too.
        """
        end = _perf_counter() + 2 * _FLOAT64_SHARE * self._request.seconds
        for near in self._near:
            compiled, left = not near.vanishing_only, end - _perf_counter()
            try:
                old = self._folder.load_in_float64(near.index)
                if left <= 0:
                    return
                with deadline(left):
                    new = self._caller.call(in_float64(near.case, compiled=compiled), compiled=compiled)
            except DeadlineExceededError:
                return
            except FileNotFoundError:  # the old text fails in float64, or had no time for it
                continue
            if new is not None and agree_in_float64(
                new, old, near.single, vanishing_only=near.vanishing_only
            ):
                so_far = self._result.so_far
                comparisons = list(so_far.comparisons)
                comparisons[near.place] = replace(comparisons[near.place], differences=near.differences)
                self._result.verification = replace(so_far, comparisons=tuple(comparisons))

    def _note(
        self, refused: Iterable[str], late: Sequence[CaseCall], calls: Sequence[CaseCall], reached: int
    ) -> None:
        """Note what was not compared, and what is left for the next round."""
        left = [call for call in calls[reached:] if not call.needs_exception]
        self._result.verification = replace(
            self._result.so_far,
            not_accepted=tuple(refused),
            not_reached=_names(late),
            reached=reached,
            left=_names(left),
            lines_run=self._caller.lines.lines_run,
        )

    def _add(
        self, case: Case, record: CallRecord | None, old: list[CallRecord], *, compiled: bool, index: int = 0
    ) -> None:
        """Add a comparison. `old`: the call of the old text in eager mode, then compiled if that was made."""
        differences: tuple[Difference, ...] = (
            Difference(Aspect.EXCEPTION, "its inputs cannot be built any more"),
        )
        if record is not None:
            measured = MeasuredRounding(old[0], old[1]) if len(old) > 1 else None
            differences, is_rounding = self._nearest(case, record, old, measured, compiled=compiled)
            if not is_rounding:
                self._add_near(case, record, old, measured, compiled=compiled, index=index)
        self._add_differences(case, differences, compiled=compiled)

    def _add_near(
        self,
        case: Case,
        record: CallRecord,
        old: list[CallRecord],
        measured: MeasuredRounding | None,
        *,
        compiled: bool,
        index: int,
    ) -> None:
        """Keep a call that differs for a decision in float64, if its differences are near rounding."""
        near = [measured] if measured is None else [measured, replace(measured, is_near=True)]
        for number, known in enumerate(near):
            rounded, is_near = self._nearest(case, record, old, known, compiled=compiled, vanish=True)
            if is_near:
                place = len(self._result.so_far.comparisons)
                self._near.append(NearRounding(place, index, case, old[0], rounded, number == 0))
                return

    def _nearest(
        self,
        case: Case,
        record: CallRecord,
        old: list[CallRecord],
        measured: MeasuredRounding | None,
        *,
        compiled: bool,
        vanish: bool = False,
    ) -> tuple[tuple[Difference, ...], bool]:
        """The differences from the call of the old text that it equals, else from the first; whether it equals one."""
        differences = [
            self._differences(record, known, measured, compiled=compiled, vanish=vanish) for known in old
        ]
        if case.differentiates_twice:
            differences = [_without_unused(unused_result) for unused_result in differences]
        equal = (entries for entries in differences if all(difference.rounding for difference in entries))
        nearest = next(equal, None)
        return (differences[0], False) if nearest is None else (nearest, True)

    def _add_differences(self, case: Case, differences: tuple[Difference, ...], *, compiled: bool) -> None:
        comparison = CallComparison(0, case.name, compiled, differences, case.family)
        before = self._result.so_far
        self._result.verification = replace(before, comparisons=(*before.comparisons, comparison))

    def _differences(
        self,
        new: CallRecord,
        old: CallRecord,
        measured: MeasuredRounding | None,
        *,
        compiled: bool,
        vanish: bool,
    ) -> tuple[Difference, ...]:
        if compiled or self._printed_varies:  # Dynamo prints and warns where it compiles
            new, old = without_printed(new), without_printed(old)
        return compare_records(new, old, compiled=compiled, measured=measured, vanish=vanish)

    def _longest(self, known: RecordedCase, *, compiled: bool) -> float:
        """Seconds that a call of the new text may take. It may compile where the old text had compiled before."""
        return max(self._least * (_COMPILES if compiled else 1.0), _SLOWER * known.seconds)

    def _slower(self, known: RecordedCase, *, compiled: bool) -> Difference:
        seconds, before = self._longest(known, compiled=compiled), max(known.seconds, 0.1)
        return Difference(Aspect.TIME, f"takes more than {seconds:.0f} s, and took {before:.1f} s before")

    @property
    def _least(self) -> float:
        """Seconds that each call may take."""
        return min(_ENDLESS, self._request.seconds / 2)

    def _is_late(self) -> bool:
        return _perf_counter() > self._end


def _names(calls: Sequence[CaseCall]) -> tuple[str, ...]:
    """The names of cases, or of their compiled calls alone."""
    eager = {id(call.case) for call in calls if not call.compiled}
    names = (
        f"{call.case.name}, compiled" if call.compiled and id(call.case) not in eager else call.case.name
        for call in calls
    )
    return tuple(dict.fromkeys(names))


def _exceptions(records: Iterable[CallRecord]) -> set[str]:
    return {record.raised for record in records if record.raised}


_LAST = frozenset({CaseFamily.EXTREME})
"""Families whose calls may take long or much memory."""
_ORDINARY = frozenset(
    {
        CaseFamily.SIZE,
        CaseFamily.GRADIENTS,
        CaseFamily.SECOND,
        CaseFamily.MODE,
        CaseFamily.FROZEN,
        CaseFamily.HOOKS,
        CaseFamily.REPEATED,
        CaseFamily.VALUES,
        CaseFamily.OPTION,
        CaseFamily.CONSTRUCTOR,
        CaseFamily.ATTRIBUTE,
    }
)
_NON_FINITE = frozenset({CaseFamily.NONFINITE})
"""Families whose compiled calls take no compile of their own, so that there is time for them."""
_SPECIAL = frozenset(CaseFamily) - _ORDINARY - _NON_FINITE - _LAST


def _without_unused(differences: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """The differences but None and zeros as a second gradient, which depend on how torch writes the first one.

    `relu(x)` has zeros and `x - 1` has None, so that else each `torch.where` of the two would differ.
    """
    return tuple(difference for difference in differences if difference.aspect is not Aspect.UNUSED_GRADIENT)
