"""Which functions of torch draw random numbers in a call: those after which the state of a generator is another.

Invariant: an empty answer says that nothing is known. Python's and NumPy's numbers, and those of a generator that the
program makes, are not seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from fuselight.capture.calls.calls import Prepared
from fuselight.measure.accuracy.results import of_call
from fuselight.shared.report import Work


def drawn_by(build: Callable[[], Prepared], work: Work | None = None) -> tuple[str, ...]:
    """Name the functions by which one call in eager mode draws, as `dropout` and `randint`."""
    prepared = build()
    try:
        with torch.compiler.set_stance("force_eager"), _DrawingFunctions() as functions:
            of_call(prepared, prepared.function, work)
    except Exception:  # noqa: BLE001 - a function or a subclass of the user's may refuse a mode
        return ()
    return tuple(functions.names)


class _DrawingFunctions(TorchFunctionMode):
    """Notes each function that changes the state of a generator."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, None] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function, and compare the generators before and after it."""
        del types
        before = generator_states()
        result = func(*args, **(kwargs or {}))
        if not all(map(torch.equal, before, generator_states())):
            self.names[getattr(func, "__name__", "").strip("_")] = None
        return result


def generator_states() -> list[torch.Tensor]:
    """The state of each default generator."""
    of_gpus = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    return [torch.get_rng_state(), *of_gpus]
