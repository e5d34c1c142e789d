"""What the results of all configurations are held against: the same call in float64, and eager with another seed.

Invariant: there is a reference only where the whole call could be made in float64, else a reason in words. Its modules
are changed in place: the process that makes this call makes no other one of the target behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from fuselight.measure.accuracy import RANDOM, STATE, is_random
from fuselight.measure.reached import modules_of
from fuselight.measure.results import CHANGED, Results, of_call
from fuselight.report import Work
from fuselight.target.calls import Prepared
from fuselight.target.tensors import SEED, tensors_in, with_tensors

_WIDE = {torch.complex64: torch.complex128, torch.complex32: torch.complex128}
_WORDS = 300


class NotDoubledError(Exception):
    """The inputs cannot be had in float64; says why."""


class Sparing:
    """A build that gives the same again while no call has changed it: a large model takes long to build."""

    def __init__(self, build: Callable[[], Prepared]) -> None:
        self._build = build
        self._kept: Prepared | None = None

    def __call__(self) -> Prepared:
        """What is as a fresh build."""
        if self._kept is None:
            self._kept = self._build()
        return self._kept

    def called(self, results: Results) -> None:
        """Hear what a call of it gave, in-place changes among that."""
        if any(one.name.endswith(CHANGED) for one in results.values):
            self._kept = None


def varies(build: Callable[[], Prepared], work: Work | None = None) -> str:
    """Whether eager gives other results each time: RANDOM with another seed, STATE with the same one too, else empty.

    Each call has a fresh `build()`; what the target keeps in its module's globals is not built anew. Raises what the
    user's code raises.
    """
    found: list[Results] = []
    with torch.compiler.set_stance("force_eager"):
        for seed in (SEED, SEED + 1, SEED):
            prepared = build()
            found.append(of_call(prepared, prepared.function, work, seed=seed))
            if isinstance(build, Sparing):
                build.called(found[-1])
            if len(found) > 1 and not is_random(found[0], found[1]):
                return ""
    return STATE if is_random(found[0], found[2]) else RANDOM


def float64_results(build: Callable[[], Prepared], work: Work | None = None) -> tuple[Results | None, str]:
    """Make the call of a fresh `build()` in float64, in eager. Returns what it gave, or None and why there is none."""
    try:
        prepared = doubled(build())
        with torch.compiler.set_stance("force_eager"):
            return of_call(prepared, prepared.function, work), ""
    except NotDoubledError as error:
        return None, str(error)
    except torch.OutOfMemoryError:
        return None, "not enough memory for it on the device"
    except Exception as error:  # noqa: BLE001 - the user's code may raise anything for a dtype that it does not expect
        first = next(iter(str(error).strip().splitlines()), "")
        return None, f"the target does not run in float64: {type(error).__name__}: {first}"[:_WORDS]


def doubled(prepared: Prepared) -> Prepared:
    """The same call with floating inputs in float64; the modules that it reaches are changed in place.

    Raises NotDoubledError where a copy would not be the same call.
    """
    tensors = tensors_in([prepared.args, prepared.kwargs])
    floating = {id(one): one for one in tensors if one.is_floating_point() or one.is_complex()}
    starts = [one.untyped_storage().data_ptr() for one in floating.values() if one.layout is torch.strided]
    if len(set(starts)) < len(starts):
        raise NotDoubledError("inputs share their memory, and copies in float64 would not")
    for _, module in modules_of(prepared):
        module.double()
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_complex():
                tensor.data = tensor.data.to(torch.complex128)
    args, kwargs = with_tensors((prepared.args, prepared.kwargs), _double)
    return replace(prepared, args=args, kwargs=kwargs)


def _double(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point() and not tensor.is_complex():
        return tensor
    wide = tensor.detach().to(_WIDE.get(tensor.dtype, torch.float64), copy=True)
    return wide.requires_grad_(tensor.requires_grad)
