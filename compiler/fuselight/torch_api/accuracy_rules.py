# ruff: noqa: SLF001 - private names are this package's business
"""How torch's own benchmark suite decides whether two results are the same.

Invariant: it changes nothing and writes nothing to torch's logs.
"""

from __future__ import annotations

import torch
import torch._dynamo.utils


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
