"""Builds the target again for each case, and makes the call of the case in eager mode or compiled.

Invariant: each call starts from the same seed and from a build of its own, and modules that the file keeps are as they
were before it.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.capture.calls.calls import Prepared, call_mode
from fuselight.capture.calls.present_device import uses_gpu
from fuselight.capture.calls.random_fill import quick_random
from fuselight.capture.calls.rungs import Answered, Silent
from fuselight.capture.calls.tensors import set_seeds, tensors_in
from fuselight.measure.measured_call import modules_of
from fuselight.shared.inputs import UserCallError
from fuselight.shared.report import CaseFamily, is_user_file
from fuselight.shared.report.failure import first_line
from fuselight.worker.child.line_watch import LineWatch
from fuselight.worker.child.state import RunState
from fuselight.worker.child.target_run import Climb
from fuselight.worker.live.call_records import CallRecord, RecordingStream, record_call
from fuselight.worker.verify.context_cases import user_namespaces
from fuselight.worker.verify.eager_mode import eager_mode
from fuselight.worker.verify.verification_cases import Case

_ROOM = 1 << 30
"""Bytes that a call with extreme numbers may allocate."""


class NothingToCompareError(Exception):
    """The calls cannot be compared; the message says why."""


def check_values(state: RunState) -> None:
    """Raise NothingToCompareError where the values of a launch of a Triton kernel are unknown."""
    unknown = state.kernel_launches.unknown
    if unknown:
        raise NothingToCompareError(f"values are not known here ({unknown})")


@dataclass
class CaseCaller:
    """Makes the calls of one text."""

    state: RunState
    climb: Climb
    names: Mapping[str, Any]
    streams: tuple[RecordingStream, RecordingStream]
    available: list[Answered]
    """The first answer of the ladder, until it is used."""
    lines: LineWatch
    """What runs of the changed files."""

    @property
    def namespaces(self) -> list[MutableMapping[str, Any]]:
        """The globals of the user's files."""
        roots = tuple(self.state.job.request.roots)
        names = self.names if isinstance(self.names, dict) else {}
        return user_namespaces(names, lambda path: is_user_file(path, roots))

    def prepared(self) -> Prepared:
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

    def call(self, case: Case, *, compiled: bool, is_first: bool = False) -> CallRecord | None:
        """Build the target and make the call of a case; None if its inputs cannot be made.

        `is_first`: compiled as if nothing was compiled before.
        """
        with contextlib.ExitStack() as restoring:
            if not compiled:
                restoring.enter_context(eager_mode())
                if not case.varies:  # nothing else is varied in a call that alone runs a line
                    restoring.enter_context(self.lines.watching(has_threads=uses_gpu()))
            restoring.enter_context(case.around_build())
            try:
                prepared = self.prepared()
            except NothingToCompareError:
                if case.varies:
                    return None
                raise
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
                roots = tuple(self.state.job.request.roots)

                def make() -> Any:
                    return _outputs(prepared, function, case)

                record, _ = record_call(
                    prepared,
                    self.names,
                    self.streams,
                    make,
                    roots=roots,
                    since=self.state.loaded.last_before(roots),
                    compiled=compiled,
                )
                check_values(self.state)
                return record


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
