"""The reference for all configurations: the same call in float64, and eager with another seed.

Invariant: there is a reference only if the whole call runs in float64, otherwise a reason. The modules are changed in
place: whoever makes a further call of the target in this process restores them (`restoration`).
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.tensors import SEED, tensors_in
from fuselight.measure.accuracy import RANDOM, STATE
from fuselight.measure.accuracy.results import CHANGED, CallResults, of_call
from fuselight.measure.accuracy.rules import is_random
from fuselight.measure.measured_call import modules_of, with_inputs
from fuselight.shared.report import Work
from fuselight.shared.report.failure import first_line

_WIDE = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}
_WORDS = 300


class NotDoubledError(Exception):
    """The inputs cannot be converted to float64; the message says why."""


class ReusedBuild:
    """A build function that reuses its object until a call changes it: large models are slow to build."""

    def __init__(self, build: Callable[[], Prepared]) -> None:
        self._build = build
        self._kept: Prepared | None = None

    def __call__(self) -> Prepared:
        """Return an object equal to a fresh build."""
        if self._kept is None:
            self._kept = self._build()
        return self._kept

    def called(self, results: CallResults) -> None:
        """Record the results of a call, including in-place changes."""
        if any(value.name.endswith(CHANGED) for value in results.values):
            self._kept = None


def varies(build: Callable[[], Prepared], work: Work | None = None) -> str:
    """Why eager's results vary: RANDOM with another seed only, STATE with the same seed too, empty if they do not.

    Each call has a fresh `build()`; state that the target keeps in module globals is not rebuilt. Raises what the
    user's code raises.
    """
    results: list[CallResults] = []
    with torch.compiler.set_stance("force_eager"):
        for seed in (SEED, SEED + 1, SEED):
            prepared = build()
            results.append(of_call(prepared, prepared.function, work, seed=seed))
            if isinstance(build, ReusedBuild):
                build.called(results[-1])
            if len(results) > 1 and not is_random(results[0], results[1]):
                return ""
    return STATE if is_random(results[0], results[2]) else RANDOM


def float64_results(
    build: Callable[[], Prepared], work: Work | None = None
) -> tuple[CallResults | None, str]:
    """Make the call of a fresh `build()` in float64, in eager mode. Returns the results, or None and the reason."""
    try:
        prepared = doubled(build())
        with torch.compiler.set_stance("force_eager"):
            return of_call(prepared, prepared.function, work), ""
    except NotDoubledError as error:
        return None, str(error)
    except torch.OutOfMemoryError:
        return None, "not enough memory for it on the device"
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything for a dtype that it does not expect
        words = f"{type(error).__name__}: {first_line(error)}"
        return None, f"the target does not run in float64: {words}"[:_WORDS]


def doubled(prepared: Prepared) -> Prepared:
    """The same call with floating-point inputs in float64; the modules that it reaches are changed in place.

    Raises NotDoubledError if a copy would not be the same call.
    """
    tensors = tensors_in([prepared.args, prepared.kwargs])
    floating = {id(tensor): tensor for tensor in tensors if tensor.is_floating_point() or tensor.is_complex()}
    starts = [
        tensor.untyped_storage().data_ptr() for tensor in floating.values() if tensor.layout is torch.strided
    ]
    if len(set(starts)) < len(starts):
        raise NotDoubledError("inputs share their memory, and copies in float64 would not")
    for _, module in modules_of(prepared):
        module.double()
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_complex():
                tensor.data = tensor.data.to(torch.complex128)
    return with_inputs(prepared, _double)


def restoration(prepared: Prepared) -> Callable[[], None]:
    """A function that gives the modules of a call the parameters and buffers that they have now."""
    modules = [submodule for _, module in modules_of(prepared) for submodule in module.modules()]
    parameters = {
        id(parameter): (parameter, parameter.data, parameter.grad)
        for module in modules
        for parameter in module.parameters(recurse=False)
    }
    buffers = [(module, *named) for module in modules for named in module.named_buffers(recurse=False)]

    def restore() -> None:
        for parameter, data, _ in parameters.values():
            parameter.grad = None  # its dtype is that of the data
            parameter.data = data
        for parameter, _, grad in parameters.values():
            parameter.grad = grad
        for module, name, buffer in buffers:
            setattr(module, name, buffer)

    return restore


def _double(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point() and not tensor.is_complex():
        return tensor
    wide = tensor.detach().to(_WIDE.get(tensor.dtype, torch.float64), copy=True)
    return wide.requires_grad_(tensor.requires_grad)
