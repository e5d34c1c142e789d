"""Records each operator call with the line that makes it: a part of torch's profiling without a public name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class _Marking(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Puts a record around each operator, behind autograd and so in the engine's thread as well."""

    def __init__(self, mark: Callable[[], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._mark = mark

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """That compiled code runs as it is; else Dynamo takes its frames for ones to be left alone from now on."""
        return True

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        with torch.profiler.record_function(self._mark()):
            return func(*args, **(kwargs or {}))


def marks_compiled_calls() -> bool:
    """Whether `marked_operators` leaves compiled code as it is in this torch (2.11 does; not asked of older ones)."""
    return hasattr(TorchDispatchMode, "ignore_compile_internals")


@contextlib.contextmanager
def marked_operators(mark: Callable[[], str]) -> Iterator[None]:
    """While a profiler is on, have each operator within a record that `mark` names; it takes some 20 us more.

    What Dynamo has compiled runs as it is, and a frame that has to be compiled is.
    """
    with _Marking(mark):
        yield
