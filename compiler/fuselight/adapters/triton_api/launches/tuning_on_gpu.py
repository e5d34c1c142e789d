"""Whether an autotuner's timed runs change the first result of a launch, tried on a GPU that is there.

The first launch of an autotuner is made once more with what its tensors had before: it has chosen by then, so that
nothing is timed. Invariant: what is reported is a difference between two results of the GPU that a third one does not
have, and the memory is afterwards as the first launch has left it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.torch_api.triton_kernels import without_modes
from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.launches.tuning_trial import place_of, tensors_in, tried_cures
from fuselight.shared.report import TuningChange

_MAX_BYTES = 1 << 30
"""Of the tensors of a launch that is tried: they are kept several times."""
_MAX_TRIED = 100
"""Autotuners of a process that are tried."""
_NOISE = 1e-2
"""Part of the largest value by which results may differ: sums in another order do."""

_Run = Callable[..., Any]


@contextlib.contextmanager
def trying_tuned_launches(on_change: Callable[[TuningChange], None]) -> Iterator[None]:
    """Try the first launch of each autotuner that has a choice, until the block ends."""
    autotuner = names.autotuner().Autotuner
    real, tried = autotuner.run, set[int]()

    def run(self: Any, *args: Any, **named: Any) -> Any:
        if len(getattr(self, "configs", ())) < 2 or id(self) in tried or len(tried) >= _MAX_TRIED:  # noqa: PLR2004 - a choice
            return real(self, *args, **named)
        with without_modes(), torch.no_grad():
            trial = None if named.get("warmup") else _trial(real, self, args, named)
        result = real(self, *args, **named)
        if trial is not None:
            tried.add(id(self))
            change = None
            with (
                without_modes(),
                torch.no_grad(),
                contextlib.suppress(Exception),
            ):  # hooks of the user's, and memory
                change = trial.change()
            if change is not None:
                on_change(change)
        return result

    with patched(autotuner, "run", torch.compiler.disable(run)):  # type: ignore[no-untyped-call]
        yield


def _trial(run: _Run, autotuner: Any, args: tuple[Any, ...], named: dict[str, Any]) -> _GpuTrial | None:
    """The trial of a launch that begins; None where its tensors are too large, or no plain ones."""
    with contextlib.suppress(Exception):  # tensors without a storage
        values = {**dict(zip(autotuner.arg_names, args, strict=False)), **named}
        parameters: dict[str, torch.Tensor] = {}
        for name, value in values.items():
            for tensor in tensors_in([value]):
                parameters.setdefault(name, tensor)
        storages = {
            tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in parameters.values()
        }
        plain = all(type(tensor) in {torch.Tensor, torch.nn.Parameter} for tensor in parameters.values())
        if plain and storages and sum(storage.nbytes() for storage in storages.values()) <= _MAX_BYTES:
            trial = _GpuTrial(run, autotuner, args, named, parameters, storages)
            trial.before = trial.contents()
            return trial
    return None


@dataclass
class _GpuTrial:
    run: _Run
    autotuner: Any
    args: tuple[Any, ...]
    named: dict[str, Any]
    parameters: dict[str, torch.Tensor]
    storages: dict[int, Any]
    before: dict[int, Any] = field(default_factory=dict)

    def contents(self) -> dict[int, Any]:
        """Copies of the storages, by their address."""
        return {address: storage.clone() for address, storage in self.storages.items()}

    def restore(self, contents: dict[int, Any]) -> None:
        """Have the storages what they had."""
        for address, content in contents.items():
            self.storages[address].copy_(content)

    def change(self) -> TuningChange | None:
        """What the timed runs have changed in the result of the launch that was just made."""
        after = self.contents()
        written = [address for address in after if not _is_equal(after[address], self.before[address])]
        if not written:
            return None
        try:
            expected = self.result(self.autotuner)
            changed = [
                name
                for name, tensor in self.parameters.items()
                if _address(tensor) in written and self.differs(name, after, expected).any()
            ]
            if not changed:
                return None
            again = self.result(self.autotuner)
            if any(self.differs(name, again, expected).any() for name in changed):
                return None  # it is not deterministic
            return self.described(changed, after, expected)
        finally:
            self.restore(after)

    def result(self, autotuner: Any) -> dict[int, Any]:
        """What a launch leaves in memory that begins with what the first one began with."""
        self.restore(self.before)
        self.run(autotuner, *self.args, **self.named)
        return self.contents()

    def elements(self, name: str, contents: dict[int, Any]) -> torch.Tensor:
        """The elements of a storage, as numbers."""
        tensor = self.parameters[name]
        storage = contents[_address(tensor)]
        flat = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage)
        return flat.to(torch.float64)

    def differs(self, name: str, result: dict[int, Any], expected: dict[int, Any]) -> torch.Tensor:
        """Which elements differ by more than the order of sums explains."""
        left, right = self.elements(name, result), self.elements(name, expected)
        finite = right[right.isfinite()]
        largest = float(finite.abs().max()) if finite.numel() else 0.0
        unequal = (left != right) & ~(left.isnan() & right.isnan())
        is_close = (left - right).abs() <= _NOISE * largest
        return unequal & ~is_close if self.parameters[name].is_floating_point() else unequal

    def described(self, changed: list[str], after: dict[int, Any], expected: dict[int, Any]) -> TuningChange:
        name, kernel = changed[0], self.autotuner.fn
        while not hasattr(kernel, "__name__") and hasattr(kernel, "fn"):
            kernel = kernel.fn
        places = self.differs(name, after, expected)
        at = int(places.nonzero()[0])
        zero = [other for other in changed if not self.elements(other, self.before).any()]

        def is_right(other: Any) -> bool:
            other.do_bench = _run_twice
            result = self.result(other)
            return not any(self.differs(each, result, expected).any() for each in self.parameters)

        return TuningChange(
            str(kernel.__name__),
            place_of(kernel),
            name,
            offset=at - int(self.parameters[name].storage_offset()),
            value=float(self.elements(name, after)[at]),
            expected=float(self.elements(name, expected)[at]),
            count=int(places.sum()),
            configurations=len(self.autotuner.configs),
            cures=tuple(tried_cures(self.autotuner, changed, zero, is_right)),
            has_own_hook=bool(self.autotuner.user_defined_pre_hook or self.autotuner.user_defined_post_hook),
            is_of_gpu=True,
        )


def _run_twice(call: Callable[[], None], quantiles: Any = None) -> list[float]:
    """A benchmark that finds all configurations equally fast."""
    del quantiles
    call()
    call()
    return [1.0, 1.0, 1.0]


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _is_equal(after: Any, before: Any) -> bool:
    left, right = (
        torch.empty(0, dtype=torch.uint8, device=each.device).set_(each) for each in (after, before)
    )
    return bool(torch.equal(left, right))
