"""Whether an autotuner's timed runs change the first result of a launch, tried on the launch's own tensors.

Triton times each configuration on the tensors of the caller. A kernel that reads what it has written then begins with
other values, unless `reset_to_zero=`, `restore_value=` or a hook undoes that. Invariant: what is reported is a
difference between two computed results; the advice was tried with Triton's own autotuner, and the memory of the launch
is afterwards as the launch has left it.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from fuselight.adapters.torch_api.triton_kernels import without_modes
from fuselight.adapters.triton_api import names
from fuselight.adapters.triton_api.launches.memory import TensorMemory
from fuselight.adapters.triton_api.launches.record import LaunchStopped
from fuselight.adapters.triton_api.launches.specializations import autotune_line
from fuselight.shared.report import Location, TuningChange

MAX_BYTES = 1 << 26
"""Of the tensors of a launch that is tried: they are kept twice."""
_MAX_TRIED = 100
"""Autotuners of a process that are tried."""

_Contents = dict[int, bytes]
"""What storages have, by their address."""


class _AutotunerCall(NamedTuple):
    """The call of an autotuner that runs."""

    autotuner: Any
    args: tuple[Any, ...]
    named: dict[str, Any]
    before: _Contents


class _RunningAutotuner(threading.local):
    tuned: _AutotunerCall | None = None


class TuningTrials:
    """Tries the first launch of each autotuner that has a choice."""

    def __init__(self) -> None:
        self._running = _RunningAutotuner()
        self._tried: set[int] = set()

    @contextlib.contextmanager
    def running(self, autotuner: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Iterator[None]:
        """While an autotuner runs: its launch can be tried."""
        mode = self._running
        before = None
        if self._is_wanted(autotuner):
            with contextlib.suppress(Exception):  # tensors without a storage: the launch says so itself
                before = _contents([*args, *named.values()])
        mode.tuned = _AutotunerCall(autotuner, args, named, before) if before is not None else None
        try:
            yield
        finally:
            mode.tuned = None

    def _is_wanted(self, autotuner: Any) -> bool:
        has_choice = len(getattr(autotuner, "configs", ())) > 1  # Triton times even one that pruning leaves
        return has_choice and id(autotuner) not in self._tried and len(self._tried) < _MAX_TRIED

    def change(
        self, kernel: Any, regions: Iterable[TensorMemory], run: Callable[[], None]
    ) -> TuningChange | None:
        """What a timed run before the launch changes in the result that the launch has just computed.

        `regions` are the launch's arguments as it has accessed them; `run()` computes the launch once more, and raises
        LaunchStopped and whatever the interpreter raises. None where nothing changes, or no autotuner launches.
        """
        tuned, self._running.tuned = self._running.tuned, None
        if tuned is None:
            return None
        self._tried.add(id(tuned.autotuner))
        arguments = list(regions)
        read = {region.real_start for region in arguments if region.was_read}
        again = [region for region in arguments if region.written and region.real_start in read]
        after = _contents([region.tensor for region in arguments])
        if not again or after is None or not all(region.real_start in tuned.before for region in again):
            return None
        trial = _TunedLaunch(kernel, tuned, again, run)
        try:
            with without_modes(), torch.no_grad(), _inference(arguments):
                return trial.change(after)
        except (Exception, LaunchStopped):  # noqa: BLE001 - hooks of the user's, and the interpreter
            return None
        finally:
            _restore(after)


@dataclass
class _TunedLaunch:
    kernel: Any
    tuned: _AutotunerCall
    again: list[TensorMemory]
    """Arguments that the launch writes, and whose memory it reads."""
    run: Callable[[], None]

    def change(self, after: _Contents) -> TuningChange | None:
        autotuner = self.tuned.autotuner
        has_hooks = bool(autotuner.reset_to_zero or _has_own_hooks(autotuner))
        expected = self._result(None) if has_hooks else after
        result = self._result(autotuner)
        changed = [
            region for region in self.again if result[region.real_start] != expected[region.real_start]
        ]
        if not changed:
            return None
        first = changed[0]
        wrong, right = (_elements(contents[first.real_start], first) for contents in (result, expected))
        places = (wrong != right) & ~((wrong != wrong) & (right != right))  # noqa: PLR0124 - a NaN is like another
        if not places.any():
            return None
        at = int(places.nonzero()[0])
        return TuningChange(
            str(self.kernel.__name__),
            place_of(self.kernel),
            first.name,
            offset=at - (first.address - first.start) // first.item,
            value=float(wrong[at]),
            expected=float(right[at]),
            count=int(places.sum()),
            configurations=len(autotuner.configs),
            cures=tuple(self._cures([region.name for region in changed], expected)),
            has_own_hook=bool(autotuner.user_defined_pre_hook or autotuner.user_defined_post_hook),
        )

    def _cures(self, changed: list[str], expected: _Contents) -> Iterator[tuple[str, ...]]:
        """Arguments of `@triton.autotune`, as text, with which the first result is right."""
        autotuner = self.tuned.autotuner
        zero = [
            region.name
            for region in self.again
            if region.name in changed and _is_zero(self.tuned.before[region.real_start])
        ]
        return tried_cures(autotuner, changed, zero, lambda other: self._is_right(other, expected))

    def _is_right(self, autotuner: Any, expected: _Contents) -> bool:
        result = self._result(autotuner)
        return all(result[region.real_start] == expected[region.real_start] for region in self.again)

    def _result(self, autotuner: Any) -> _Contents:
        """What the launch leaves in memory after one timed run of `autotuner`; after none, if it is None."""
        _restore(self.tuned.before)
        config = self.tuned.autotuner.best_config or self.tuned.autotuner.configs[0]
        named = {
            **dict(zip(self.tuned.autotuner.arg_names, self.tuned.args, strict=False)),
            **self.tuned.named,
            **config.all_kwargs(),
        }
        # Hooks write through aliases that have no part in the program's autograd graph.
        named = {
            name: value.data if isinstance(value, torch.Tensor) else value for name, value in named.items()
        }
        if autotuner is not None:
            if config.pre_hook is not None:
                config.pre_hook(named)
            autotuner.pre_hook(named)
            self.run()
            autotuner.post_hook(named, exception=None)
            autotuner.pre_hook(named, reset_only=True)
        if config.pre_hook is not None:
            config.pre_hook(named)
        self.run()
        contents = _contents([region.tensor for region in self.again])
        if contents is None:
            raise LaunchStopped("its tensors are too large")
        return contents


def place_of(kernel: Any) -> Location:
    """The line of the autotuner of a kernel."""
    home = Location(str(kernel.fn.__code__.co_filename), names.first_line(kernel))
    return autotune_line(kernel) or home


def tried_cures(
    autotuner: Any, changed: list[str], zero: list[str], is_right: Callable[[Any], bool]
) -> Iterator[tuple[str, ...]]:
    """Arguments of `@triton.autotune`, as text, of which a trial was right.

    `changed`: the parameters that timed runs change; `zero`: those of which all was zero before the launch.
    """
    for reset in ([zero] if zero else []) + [[]]:
        kept_zero = [name for name in autotuner.reset_to_zero if name not in changed]
        zeroed = list(dict.fromkeys([*kept_zero, *reset]))
        others = [name for name in changed if name not in reset]
        restored = list(dict.fromkeys([*autotuner.restore_value, *others]))
        restored = [name for name in restored if name not in zeroed]
        try:
            is_cured = is_right(_with_arguments(autotuner, zeroed, restored))
        except (Exception, LaunchStopped):  # noqa: BLE001 - a Triton of other parameters, or as of all of them
            is_cured = False
        if is_cured:
            yield tuple(
                f"{name}={json.dumps(items)}"
                for name, items in (("reset_to_zero", zeroed), ("restore_value", restored))
                if items
            )


def _with_arguments(autotuner: Any, zeroed: list[str], restored: list[str]) -> Any:
    """The same autotuner with other tensors that it sets to zero and restores."""
    changed = type(autotuner)(
        autotuner.fn,
        autotuner.arg_names,
        autotuner.configs,
        autotuner.keys,
        zeroed,
        restored,
        pre_hook=autotuner.pre_hook if autotuner.user_defined_pre_hook else None,
        post_hook=autotuner.post_hook if autotuner.user_defined_post_hook else None,
    )
    for name in ("_do_bench", "perf_model", "configs_top_k", "early_config_prune"):
        if hasattr(autotuner, name):
            setattr(changed, name, getattr(autotuner, name))
    return changed


def _has_own_hooks(autotuner: Any) -> bool:
    return bool(
        autotuner.user_defined_pre_hook
        or autotuner.user_defined_post_hook
        or any(config.pre_hook is not None for config in autotuner.configs)
    )


def _contents(values: Iterable[Any]) -> _Contents | None:
    """The bytes of the storages of the tensors among `values`; None where they are too large, or have no memory."""
    contents: _Contents = {}
    size = 0
    for tensor in tensors_in(values):
        if type(tensor) not in {torch.Tensor, torch.nn.Parameter} or tensor.device.type != "cpu":
            return None
        storage = tensor.untyped_storage()
        start, count = int(storage.data_ptr()), int(storage.nbytes())
        if start in contents or not start:
            continue
        size += count
        if size > MAX_BYTES:
            return None
        contents[start] = ctypes.string_at(start, count)
    return contents


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among arguments of a launch, in tuples and descriptors too."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple):
            yield from tensors_in(value)
        elif isinstance(getattr(value, "base", None), torch.Tensor):  # of a descriptor
            yield value.base


def _restore(contents: Mapping[int, bytes]) -> None:
    for start, content in contents.items():
        ctypes.memmove(start, content, len(content))


def _is_zero(content: bytes) -> bool:
    return content.count(0) == len(content)


def _elements(content: bytes, region: TensorMemory) -> Any:
    """The elements of a storage, as numbers that have an order."""
    whole = len(content) // region.item * region.item
    return torch.frombuffer(bytearray(content[:whole]), dtype=region.tensor.dtype).to(torch.float64)


def _inference(regions: Iterable[TensorMemory]) -> contextlib.AbstractContextManager[Any]:
    return torch.inference_mode(any(region.tensor.is_inference() for region in regions))


def autotuner_run(trials: TuningTrials) -> Callable[..., Any]:
    """An autotuner's `run`, whose launch can be tried."""
    real = names.autotuner().Autotuner.run

    def run(self: Any, *args: Any, **named: Any) -> Any:
        with trials.running(self, args, named):
            return real(self, *args, **named)

    return run
