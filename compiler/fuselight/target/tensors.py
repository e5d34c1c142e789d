"""Make the tensors that directives and annotations ask for.

Invariant: the values are the same in each run (the caller sets the seed), and integers without a bound are 0 or 1:
valid as an index nearly everywhere.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import torch

from fuselight.inputs import TensorSpec

SEED = 0
_UNBOUNDED = 2


def set_seeds(seed: int = SEED) -> None:
    """Fix every generator that user code commonly draws from."""
    random.seed(seed)
    torch.manual_seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)


def make_tensor(spec: TensorSpec, device: str | None = None) -> torch.Tensor:
    """Make one tensor. Raises what torch raises, as for a dtype that this torch does not have."""
    dtype: torch.dtype | None = getattr(torch, spec.dtype, None)
    if dtype is None:
        raise TypeError(f"torch {torch.__version__} has no dtype {spec.dtype}")
    if spec.dtype.startswith("float4"):  # two values a byte: no conversion makes one
        return torch.randint(0, 256, spec.shape, dtype=torch.uint8, device=device).view(dtype)
    if dtype.is_complex:
        return torch.randn(spec.shape, dtype=torch.complex64, device=device).to(dtype)
    if dtype.is_floating_point:
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        return torch.randn(spec.shape, dtype=wide, device=device).to(dtype)
    bound = _UNBOUNDED if spec.bound is None else spec.bound
    return torch.randint(0, bound, spec.shape, dtype=torch.int64, device=device).to(dtype)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Collect the tensors of nested tuples, lists, dicts and objects with a `__dict__` of a model's output."""
    found: list[torch.Tensor] = []
    _collect(value, found, 0)
    return found


def _collect(value: Any, found: list[torch.Tensor], depth: int) -> None:
    if isinstance(value, torch.Tensor):
        found.append(value)
    elif depth > 8:  # noqa: PLR2004 - outputs are shallow; a cycle must end
        return
    elif isinstance(value, dict):
        for item in value.values():
            _collect(item, found, depth + 1)
    elif isinstance(value, (tuple, list)):
        for item in value:
            _collect(item, found, depth + 1)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            _collect(getattr(value, name, None), found, depth + 1)
