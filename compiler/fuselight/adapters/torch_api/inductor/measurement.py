# ruff: noqa: SLF001 - private names are this package's business
"""Names without a public form that a benchmark needs: records around operators, and the suite's rule of equality.

Invariant: nothing is changed, and nothing is written to torch's logs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch._dynamo.utils
from torch.utils._python_dispatch import TorchDispatchMode


class MarkedOperators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While a profiler is on, have each operator within a record that `mark` names; it takes some 20 us more.

    Below autograd, and so in the engine's thread as well. What Dynamo has compiled runs as it is, and a frame that has
    to be compiled is.
    """

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
    """Whether `MarkedOperators` leaves compiled code as it is in this torch (2.11 does; not asked of older ones)."""
    return hasattr(TorchDispatchMode, "ignore_compile_internals")


def same(
    eager: torch.Tensor,
    compiled: torch.Tensor,
    reference: torch.Tensor | None,
    *,
    tolerance: float,
    cosine: bool = False,
) -> bool:
    """Whether one tensor is right by the suite's rules; `reference` is the float64 result.

    Raises RuntimeError, as torch.allclose does, for a dtype that it does not have.
    """
    passed: bool = torch._dynamo.utils.same(
        eager,
        compiled,
        fp64_ref=reference,
        cos_similarity=cosine,
        tol=tolerance,
        equal_nan=True,
        log_error=lambda *_: None,
    )
    return bool(passed)


def version_of(tensor: torch.Tensor) -> int | None:
    """How often a tensor was changed in place; None for one that does not count (an inference tensor)."""
    return None if tensor.is_inference() else int(tensor._version)
