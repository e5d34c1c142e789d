# ruff: noqa: SLF001 - private names are this package's business
"""How torch's own benchmark suite decides whether two results are the same.

Invariant: nothing is changed, and nothing is said on a log of torch's.
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
) -> tuple[bool, str]:
    """Compare one tensor as the suite does; `reference` is the float64 result. Returns torch's words where it fails.

    Raises what torch.allclose raises for a dtype that it does not have.
    """
    words: list[str] = []

    def told(message: str, *args: object) -> None:
        words.append(message % args if args else message)

    passed = torch._dynamo.utils.same(
        eager,
        compiled,
        fp64_ref=reference,
        cos_similarity=cosine,
        tol=tolerance,
        equal_nan=True,
        log_error=told,
    )
    return bool(passed), " ".join(words)


def version_of(tensor: torch.Tensor) -> int | None:
    """How often a tensor was changed in place; None for one that does not count (an inference tensor)."""
    return None if tensor.is_inference() else int(tensor._version)
