"""Makes the further calls of a verification (verification_cases): those of the old text, then the same of the new one.

Invariant: both processes do the same up to each call, so that what the user's files keep is the same before it. A call
that the old text refuses with an exception says nothing but the type of the exception. What there is no time for is
reported as not reached, and counts for nothing; a call that takes far longer than that of the old text is a difference.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.capture.calls.calls import Prepared, call_mode
from fuselight.capture.calls.random_fill import quick_random
from fuselight.capture.calls.rungs import Answered, Silent
from fuselight.capture.calls.tensors import set_seeds, tensors_in
from fuselight.measure.measured_call import modules_of
from fuselight.shared.inputs import UserCallError
from fuselight.shared.protocol import VerifyRequest
from fuselight.shared.report import Aspect, CallComparison, CaseFamily, Difference, Verification
from fuselight.shared.report.failure import first_line
from fuselight.worker.child.line_watch import LineWatch
from fuselight.worker.child.request_results import VerifiedCalls
from fuselight.worker.child.state import RunState, put
from fuselight.worker.child.target_run import Climb
from fuselight.worker.live.call_records import (
    CallRecord,
    MeasuredRounding,
    RecordingStream,
    agree_in_float64,
    compare_records,
    has_float32,
    load_record,
    record_call,
    without_printed,
)
from fuselight.worker.processes.deadline import DeadlineExceededError, deadline
from fuselight.worker.verify.verification_cases import Case, cases_of, compiled_cases, in_float64

ABOUT = "about.json"
"""What the run of the old text found for the calls of the inputs, in the folder of its records."""
_DONE = "{}.json"
"""What the run of the old text has recorded, in the folder of its records."""
_VERSIONS = 64
"""Versions of one function that are compiled: many calls have other sizes and other numbers of dimensions."""
_FLOAT64 = "-float64"
"""In the names of the records of calls in float64."""
_ENDLESS, _SLOWER = 10.0, 20.0
"""Seconds that each call may take, and how many times those of the old text: a compile may take long."""
_MOST_RAISED = 2
"""Most calls of a family that are compiled for one type of exception."""
_WRAPPED = "RuntimeError"
"""The exception of operators: that of compiled code, TorchRuntimeError, is one."""
_FLOAT64_SHARE = 0.25
"""Time for calls in float64, in addition and as a part of the time for the further calls."""
_ROOM = 1 << 30
"""Bytes that a call with extreme numbers may allocate."""
_perf_counter = time.perf_counter  # bound before any user code runs


@dataclass(frozen=True)
class RecordedCase:
    """What the run of the old text found for one case."""

    is_made: bool
    """Whether its inputs can be made."""
    seconds: float
    """How long its call took."""
    raised: str = ""
    """Type of the exception of its call; empty if there was none."""


@dataclass(frozen=True)
class CaseCall:
    """A further call."""

    case: Case
    compiled: bool = False
    needs_exception: bool = False
    """Whether it is made only if the old text raises an exception in the case, to compare that."""


@dataclass(frozen=True)
class NearRounding:
    """A compiled call whose differences are near rounding: a call in float64 decides."""

    place: int
    """Index of its comparison."""
    index: int
    case: Case
    single: CallRecord
    """The call of the old text in eager mode."""
    differences: tuple[Difference, ...]
    """Its differences, as rounding."""


class NothingToCompareError(Exception):
    """The calls cannot be compared; the message says why."""


def uses_gpu() -> bool:
    """Whether this process has used a GPU: the engine's threads of its backward are no threads of Python."""
    return bool(torch.cuda.is_available() and torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def eager_mode() -> Iterator[None]:
    """Compile nothing. `torch.cond` compiles even in eager mode, and without that loses gradients of closures."""
    cond = torch.cond
    torch.cond = _python_cond
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        torch.cond = cond


def _python_cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()
) -> Any:
    return true_fn(*operands) if pred else false_fn(*operands)


@dataclass
class FurtherCalls:
    """The further calls of one text."""

    state: RunState
    result: VerifiedCalls
    request: VerifyRequest
    climb: Climb
    names: Mapping[str, Any]
    streams: tuple[RecordingStream, RecordingStream]
    available: list[Answered]
    """The first answer of the ladder, until it is used."""
    _lines: LineWatch = field(init=False)
    """What runs of the changed files."""
    _end: float = field(init=False)
    _printed_varies: bool = field(init=False)
    _near: list[NearRounding] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lines = LineWatch(() if self.request.records else self.request.overlays)
        self._end = _perf_counter() + self.request.seconds
        self._printed_varies = bool(self._read(ABOUT).get("printed_varies"))

    def make(self) -> None:
        """Record the calls, or compare them with those that are recorded."""
        self.result.verification = Verification()
        try:
            calls = self._planned()
            with settings.recompile_limit_of(_VERSIONS):  # else the last ones would run in eager mode
                if self.request.records:
                    self._record(calls)
                else:
                    self._compare(calls)
        except NothingToCompareError as why:
            self.result.verification = replace(self.result.so_far, refused=str(why))

    def _planned(self) -> list[CaseCall]:
        """The calls: a few are compiled, after the most ordinary ones."""
        settings = self.request.settings
        cases = cases_of(self._prepared(), settings=settings)
        compiled = compiled_cases(cases, settings=settings)
        ids = set(map(id, compiled))
        others = [case for case in cases if settings and id(case) not in ids and case.grad is None]
        calls: list[CaseCall] = []
        for families in (_ORDINARY, _NON_FINITE, _SPECIAL, _LAST):
            if families is _LAST:
                calls += [CaseCall(case, compiled=True, needs_exception=True) for case in others]
            calls += [CaseCall(case) for case in cases if case.family in families]
            calls += [CaseCall(case, compiled=True) for case in compiled if case.family in families]
        return calls

    def _record(self, calls: list[CaseCall]) -> None:
        done: dict[str, tuple[bool, float, str]] = {}
        raised: dict[int, str] = {}
        counts: Counter[tuple[CaseFamily, str]] = Counter()
        single: dict[int, Case] = {}
        for index, call in enumerate(calls):
            case, compiled = call.case, call.compiled
            if self._is_late():
                break
            exception = raised.get(id(case), "")
            start = _perf_counter()
            try:
                with deadline(self._end - start + self._least):
                    is_made = not compiled or self._is_compiled(call, exception, counts)
                    record = (
                        self._call(case, compiled=compiled, is_first=bool(exception)) if is_made else None
                    )
            except DeadlineExceededError:  # what it leaves behind, the other process would not have
                break
            if record is not None and not compiled:
                raised[id(case)] = record.raised
            if record is not None:
                record.save(self._path(index))
            if record is not None and compiled and not record.raised and has_float32(record):
                single[index] = case
            done[str(index)] = record is not None, _perf_counter() - start, record.raised if record else ""
            put(os.path.join(self.request.folder, self._done), json.dumps(done).encode())
        self._record_in_float64(single)

    def _is_compiled(self, call: CaseCall, exception: str, counts: Counter[tuple[CaseFamily, str]]) -> bool:
        """Whether to make a compiled call of the old text. `exception`: that of its eager call."""
        if not exception:
            return not call.needs_exception
        if not self.request.settings or exception == _WRAPPED:
            return False
        counts[call.case.family, exception] += 1
        return counts[call.case.family, exception] <= _MOST_RAISED

    def _record_in_float64(self, cases: Mapping[int, Case]) -> None:
        """Make the compiled calls of the old text in float64 and in eager mode, after all others."""
        end = _perf_counter() + _FLOAT64_SHARE * self.request.seconds
        for index, case in cases.items():
            left = end - _perf_counter()
            if left <= 0:
                return
            try:
                with deadline(left):
                    record = self._call(in_float64(case), compiled=False)
            except DeadlineExceededError:
                return
            if record is not None:
                record.save(self._path(index, _FLOAT64))

    def _compare(self, calls: list[CaseCall]) -> None:
        done = {int(index): RecordedCase(*value) for index, value in self._read(self._done).items()}
        eager = {id(call.case): index for index, call in enumerate(calls) if not call.compiled}
        refused: dict[str, None] = {}
        late: list[CaseCall] = []
        for index, call in enumerate(calls):
            case, compiled = call.case, call.compiled
            known = done.get(index)
            before = done.get(eager.get(id(case), index))
            exception = before.raised if compiled and before is not None else ""
            if known is None or self._is_late():
                if not call.needs_exception or exception not in {"", _WRAPPED}:
                    late.append(call)
                continue
            if compiled and not known.is_made:  # the old text refuses it in eager mode, and did not make it
                continue
            following = [later for later in calls[index:] if not later.needs_exception]
            self._note(refused, (*late, *following))  # for a report of a run that ends in this call
            try:
                with deadline(max(self._least, _SLOWER * known.seconds)):
                    record = self._call(case, compiled=compiled, is_first=bool(exception))
            except DeadlineExceededError:  # the calls after it would not be made in the same state
                self._add_differences(case, (self._slower(known),), compiled=compiled)
                return
            if not known.is_made:  # its inputs cannot be made
                continue
            old = [load_record(self._path(number)) for number in dict.fromkeys((eager[id(case)], index))]
            if old[0].raised and record is not None and record.raised in _exceptions(old):
                refused[case.name] = None
            else:
                self._add(case, record, old, compiled=compiled, index=index)
        self._note(refused, late)
        self._decide_in_float64()

    def _decide_in_float64(self) -> None:
        """Make the compiled calls whose differences are near rounding in float64, after all others.

        What the old text computes in float64 and eager mode, the compiled new text must compute, too.
        """
        end = _perf_counter() + 2 * _FLOAT64_SHARE * self.request.seconds
        for near in self._near:
            left = end - _perf_counter()
            try:
                old = load_record(self._path(near.index, _FLOAT64))
                if left <= 0:
                    return
                with deadline(left):
                    new = self._call(in_float64(near.case), compiled=True)
            except DeadlineExceededError:
                return
            except FileNotFoundError:  # the old text fails in float64, or had no time for it
                continue
            if new is not None and agree_in_float64(new, old, near.single):
                so_far = self.result.so_far
                comparisons = list(so_far.comparisons)
                comparisons[near.place] = replace(comparisons[near.place], differences=near.differences)
                self.result.verification = replace(so_far, comparisons=tuple(comparisons))

    def _note(self, refused: Iterable[str], late: Sequence[CaseCall]) -> None:
        """Note what was not compared: a case, or its compiled call alone."""
        eager = {id(call.case) for call in late if not call.compiled}
        names = (
            f"{call.case.name}, compiled" if call.compiled and id(call.case) not in eager else call.case.name
            for call in late
        )
        self.result.verification = replace(
            self.result.so_far,
            not_accepted=tuple(refused),
            not_reached=tuple(dict.fromkeys(names)),
            lines_run=self._lines.lines_run,
        )

    def _read(self, name: str) -> dict[str, Any]:
        """What an earlier run wrote; empty if it wrote nothing."""
        try:
            with open(os.path.join(self.request.folder, name), encoding="utf-8") as file:
                records: dict[str, Any] = json.load(file)
        except (OSError, ValueError):
            return {}
        return records

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
            if not is_rounding and measured is not None:
                measured = replace(measured, is_near=True)
                rounded, is_near = self._nearest(case, record, old, measured, compiled=compiled)
                place = len(self.result.so_far.comparisons)
                self._near += [NearRounding(place, index, case, old[0], rounded)] if is_near else []
        self._add_differences(case, differences, compiled=compiled)

    def _nearest(
        self,
        case: Case,
        record: CallRecord,
        old: list[CallRecord],
        measured: MeasuredRounding | None,
        *,
        compiled: bool,
    ) -> tuple[tuple[Difference, ...], bool]:
        """The differences from the call of the old text that it equals, else from the first; whether it equals one."""
        differences = [self._differences(record, known, measured, compiled=compiled) for known in old]
        if case.differentiates_twice:
            differences = [_without_unused(unused_result) for unused_result in differences]
        equal = (entries for entries in differences if all(difference.rounding for difference in entries))
        nearest = next(equal, None)
        return (differences[0], False) if nearest is None else (nearest, True)

    def _add_differences(self, case: Case, differences: tuple[Difference, ...], *, compiled: bool) -> None:
        comparison = CallComparison(0, case.name, compiled, differences, case.family)
        before = self.result.so_far
        self.result.verification = replace(before, comparisons=(*before.comparisons, comparison))

    def _differences(
        self, new: CallRecord, old: CallRecord, measured: MeasuredRounding | None, *, compiled: bool
    ) -> tuple[Difference, ...]:
        if compiled or self._printed_varies:  # Dynamo prints and warns where it compiles
            new, old = without_printed(new), without_printed(old)
        return compare_records(new, old, compiled=compiled, measured=measured)

    def _slower(self, known: RecordedCase) -> Difference:
        seconds, before = max(self._least, _SLOWER * known.seconds), max(known.seconds, 0.1)
        return Difference(Aspect.TIME, f"takes more than {seconds:.0f} s, and took {before:.1f} s before")

    @property
    def _least(self) -> float:
        """Seconds that each call may take."""
        return min(_ENDLESS, self.request.seconds / 2)

    def _is_late(self) -> bool:
        return _perf_counter() > self._end

    def _path(self, index: int, suffix: str = "") -> str:
        return os.path.join(self.request.folder, f"{self._name}-{index}{suffix}.pt")

    @property
    def _name(self) -> str:
        """Start of the names of the records."""
        return "further-settings" if self.request.settings else "further"

    @property
    def _done(self) -> str:
        return _DONE.format(self._name)

    def _prepared(self) -> Prepared:
        """Build the first call again. Raises NothingToCompareError."""
        set_seeds()
        try:
            answered = self.available.pop() if self.available else self.climb()
            planned = answered.calls[0]
            if planned.fake:
                raise NothingToCompareError("the directive asks for fake tensors, which have no values")
            with self.state.step("build", planned.text, planned.location), quick_random():
                return planned.build()
        except Silent as why:
            raise NothingToCompareError(f"the inputs cannot be made again: {why}") from None
        except UserCallError as fault:
            cause = fault.__cause__ or fault
            raise NothingToCompareError(f"the call cannot be built: {first_line(cause)}") from None

    def _call(self, case: Case, *, compiled: bool, is_first: bool = False) -> CallRecord | None:
        """Build the target and make the call of a case; None if its inputs cannot be made.

        `is_first`: compiled as if nothing was compiled before.
        """
        with contextlib.ExitStack() as restoring:
            if not compiled:
                restoring.enter_context(eager_mode())
                restoring.enter_context(self._lines.watching(has_threads=uses_gpu()))
            prepared = self._prepared()
            restoring.callback(ModuleModes(prepared).restore)
            try:
                prepared = case.change(prepared)
            except Exception:  # noqa: BLE001 - a module that has no such dtype, ...
                return None
            for _, module in modules_of(prepared):
                module.zero_grad(set_to_none=True)
            backward = case.grad if case.grad is not None else prepared.options.train
            prepared = replace(prepared, options=replace(prepared.options, train=bool(backward)))
            if compiled and (is_first or case.family is CaseFamily.RANK):
                settings.forget_compiled()  # else sizes that have varied are symbolic, unlike in a first call
            function = self.state.compiled_form(prepared) if compiled else prepared.function
            mode = "compiled" if compiled else "eager"
            with (
                self.state.step("call", f"{case.name} ({mode})"),
                _bounded_memory() if case.family is CaseFamily.EXTREME else contextlib.nullcontext(),
                _mode(case, prepared),
                case.around(),
                warnings.catch_warnings(),
            ):
                warnings.simplefilter("always")
                set_seeds()
                roots = tuple(self.request.roots)

                def make() -> Any:
                    return _outputs(prepared, function, case)

                record, _ = record_call(
                    prepared, self.names, self.streams, make, roots=roots, compiled=compiled
                )
                return record


def _exceptions(records: Iterable[CallRecord]) -> set[str]:
    return {record.raised for record in records if record.raised}


class ModuleModes:
    """What a case changes of modules, as it was before: a module that the file keeps takes part in the next case."""

    def __init__(self, prepared: Prepared) -> None:
        """Keep modes, dtypes and flags; no values are copied."""
        modules = {
            module: None for _, other_module in modules_of(prepared) for module in other_module.modules()
        }
        self._modes = [(module, module.training) for module in modules]
        self._buffers = [(module, dict(module.named_buffers(recurse=False))) for module in modules]
        self._parameters = [
            (parameter, parameter.data, parameter.requires_grad)
            for module in modules
            for parameter in module.parameters(recurse=False)
        ]

    def restore(self) -> None:
        """Give the modules back what differs."""
        for module, training in self._modes:
            module.training = training
        for module, buffers in self._buffers:
            for name, now in module.named_buffers(recurse=False):
                if name in buffers and now.dtype is not buffers[name].dtype:
                    setattr(module, name, buffers[name])
        for parameter, data, requires_grad in self._parameters:
            if parameter.dtype is not data.dtype:
                parameter.grad = None  # of the other dtype
                parameter.data = data
            parameter.requires_grad_(requires_grad)


_LAST = frozenset({CaseFamily.EXTREME})
"""Families whose calls may take long or much memory."""
_ORDINARY = frozenset(
    {
        CaseFamily.SIZE,
        CaseFamily.GRADIENTS,
        CaseFamily.SECOND,
        CaseFamily.MODE,
        CaseFamily.FROZEN,
        CaseFamily.REPEATED,
        CaseFamily.VALUES,
        CaseFamily.OPTION,
    }
)
_NON_FINITE = frozenset({CaseFamily.NONFINITE})
"""Families whose compiled calls take no compile of their own, so that there is time for them."""
_SPECIAL = frozenset(CaseFamily) - _ORDINARY - _NON_FINITE - _LAST


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """Let large allocations fail: an extreme number may be a size. Only where the system can say what is in use."""
    try:
        import resource  # noqa: PLC0415 - not on Windows

        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = used + _ROOM if soft == resource.RLIM_INFINITY else min(soft, used + _ROOM)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@contextlib.contextmanager
def _mode(case: Case, prepared: Prepared) -> Iterator[None]:
    """The mode of the modules and of gradients."""
    with call_mode(prepared):
        if case.training is not None:
            for _, module in modules_of(prepared):
                module.train(case.training)
        with torch.set_grad_enabled(torch.is_grad_enabled() if case.grad is None else case.grad):
            yield


def _outputs(prepared: Prepared, function: Callable[..., Any], case: Case) -> Any:
    """Call the target, and in training run backward from a sum with a weight for each element."""
    outputs = None
    for _ in range(case.repeats):
        outputs = function(*prepared.args, **prepared.kwargs)
    losses = []
    for tensor in tensors_in(outputs) if prepared.options.train else ():
        if tensor.requires_grad:
            weights = torch.linspace(0.5, 1.5, tensor.numel(), dtype=torch.float64, device=tensor.device)
            value = tensor.abs() if tensor.is_complex() else tensor
            losses.append((value.double() * weights.reshape(tensor.shape)).sum())
    if losses and case.differentiates_twice:
        _differentiate_twice(torch.stack(losses).sum(), prepared)
    elif losses:
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]
    return outputs


def _without_unused(differences: tuple[Difference, ...]) -> tuple[Difference, ...]:
    """The differences but None and zeros as a second gradient, which depend on how torch writes the first one.

    `relu(x)` has zeros and `x - 1` has None, so that else each `torch.where` of the two would differ.
    """
    return tuple(difference for difference in differences if difference.aspect is not Aspect.UNUSED_GRADIENT)


def _differentiate_twice(loss: torch.Tensor, prepared: Prepared) -> None:
    """Run backward from the squares of the gradients of the inputs, if they depend on anything."""
    leaves = [tensor for tensor in tensors_in([prepared.args, prepared.kwargs]) if tensor.requires_grad]
    gradients = torch.autograd.grad(loss, leaves, create_graph=True, allow_unused=True)
    squares = [
        gradient.double().square().sum()
        for gradient in gradients
        if gradient is not None and gradient.requires_grad
    ]
    if squares:
        torch.stack(squares).sum().backward()  # type: ignore[no-untyped-call]
