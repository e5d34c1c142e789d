"""Fills large random tensors quickly while a target is built: drawing each value takes longer than tracing the model.

Invariant: a filled tensor has the requested distribution and is the same in each run. It repeats one drawn block, from
an offset that the default generator chose. The block's length is prime, so that no two rows of a matrix are equal.
torch draws small tensors, tensors with their own generator, and tensor subclasses.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.adapters.torch_api.patching import patched
from fuselight.shared.report import Note

LARGE = 1 << 20
"""Minimum number of values to fill a tensor; torch draws as many in about 6 ms."""
_BLOCK = 4_194_301
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_DTYPES = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})
"""Dtypes that torch draws on the CPU; for any other, torch raises its own error."""


@dataclass
class Filled:
    """What was filled so far."""

    values: int = 0

    def fill(self, tensor: torch.Tensor, block: torch.Tensor, scale: float, shift: float) -> torch.Tensor:
        """Repeat `block * scale + shift` over a contiguous tensor, in place."""
        flat = tensor.detach().view(-1)
        start = int(torch.randint(_BLOCK, (), device="cpu"))  # whatever device the code made the default
        done, total = 0, flat.numel()
        while done < total:
            taken = min(_BLOCK - start, total - done)
            flat[done : done + taken].copy_(block[start : start + taken])
            done, start = done + taken, 0
        if scale != 1:
            flat.mul_(scale)
        if shift != 0:
            flat.add_(shift)
        self.values += total
        return tensor

    def notes(self) -> tuple[Note, ...]:
        """Say so in the report, once."""
        if not self.values:
            return ()
        text = (
            f"{self.values:,} random values of the build repeat a block of {_BLOCK:,}: to draw each takes longer, "
            "and what is captured does not depend on them"
        )
        return (Note("random_fill", text),)


@contextlib.contextmanager
def quick_random() -> Iterator[Filled]:
    """Have `normal_` and `uniform_` of large tensors fill instead of draw, until the block ends."""
    filled = Filled()
    draw_normal, draw_uniform = torch.Tensor.normal_, torch.Tensor.uniform_
    normals, uniforms = (
        functools.cache(functools.partial(_block, draw)) for draw in (torch.randn, torch.rand)
    )

    def normal_(
        self: torch.Tensor, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None
    ) -> torch.Tensor:
        if generator is None and _is_fillable(self, mean, std) and std >= 0:
            return filled.fill(self, normals(self.dtype), std, mean)
        return draw_normal(self, mean, std, generator=generator)

    def uniform_(self: torch.Tensor, *bounds: Any, **named: Any) -> torch.Tensor:
        low, high = bounds if len(bounds) == 2 else (0.0, 1.0)  # noqa: PLR2004 - or torch says what is wrong
        if (
            len(bounds) in (0, 2)
            and named in ({}, {"generator": None})
            and _is_fillable(self, low, high)
            and 0 <= high - low <= torch.finfo(self.dtype).max
        ):
            filled.fill(self, uniforms(self.dtype), high - low, low)
            return _below(self, low, high)
        return draw_uniform(self, *bounds, **named)

    with patched(torch.Tensor, "normal_", normal_), patched(torch.Tensor, "uniform_", uniform_):
        yield filled


def _block(draw: Callable[..., torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
    return draw(_BLOCK, generator=torch.Generator().manual_seed(0), dtype=dtype, device="cpu")


def _below(tensor: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Keep the upper bound out, as torch does: with few bits the scaled values are rounded up to it."""
    if low < high and tensor.element_size() == 2:  # noqa: PLR2004 - bytes
        ends = torch.tensor([high, low], dtype=tensor.dtype, device="cpu")
        tensor.detach().clamp_(max=float(torch.nextafter(ends[0], ends[1])))
    return tensor


def _is_fillable(tensor: torch.Tensor, first: Any, second: Any) -> bool:
    return (
        type(tensor) in _PLAIN
        and tensor.dtype in _DTYPES
        and isinstance(first, (int, float))
        and isinstance(second, (int, float))
        and abs(first) <= torch.finfo(tensor.dtype).max
        and abs(second) <= torch.finfo(tensor.dtype).max
        and tensor.numel() >= LARGE
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
        and not (tensor.requires_grad and torch.is_grad_enabled())  # torch refuses, and says why
        and not torch.compiler.is_compiling()
    )
