"""What of torch's profiling has no public name: seeing each operator as it is called, with the line that calls it."""

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

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        with torch.profiler.record_function(self._mark()):
            return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def marked_operators(mark: Callable[[], str]) -> Iterator[None]:
    """While a profiler is on, have each operator within a record that `mark` names.

    For eager code: Dynamo compiles nothing in such a block, and each operator takes some 20 us more.
    """
    with _Marking(mark):
        yield
