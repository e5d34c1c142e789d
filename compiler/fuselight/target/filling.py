"""Fill large random tensors quickly while a target is built: to draw each value takes longer than to trace the model.

Invariant: a filled tensor has the distribution that was asked for, and is the same in each run. Its values are those of
one drawn block over and over, from a start that the default generator chose. The block's length is prime: no two
rows of a matrix are equal. Whatever is small, has a generator of its own or is no plain tensor is drawn by torch.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fuselight.report import Note

LARGE = 1 << 20
"""Values from which on a tensor is filled; torch draws as many in about 6 ms."""
_BLOCK = 4_194_301
_PLAIN = (torch.Tensor, torch.nn.Parameter)


@dataclass
class Filled:
    """What was filled so far."""

    values: int = 0

    def fill(self, tensor: torch.Tensor, block: torch.Tensor, scale: float, shift: float) -> torch.Tensor:
        """Repeat `block * scale + shift` over a contiguous tensor, in place."""
        flat = tensor.detach().view(-1)
        start = int(torch.randint(_BLOCK, ()))
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
    normals, uniforms = functools.cache(_normals), functools.cache(_uniforms)

    def normal_(
        self: torch.Tensor, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None
    ) -> torch.Tensor:
        if generator is None and _is_fillable(self, mean, std) and std >= 0:
            return filled.fill(self, normals(), std, mean)
        return draw_normal(self, mean, std, generator=generator)

    def uniform_(self: torch.Tensor, *bounds: Any, **named: Any) -> torch.Tensor:
        low, high = bounds if len(bounds) == 2 else (0.0, 1.0)  # noqa: PLR2004 - or torch says what is wrong
        if (
            len(bounds) in (0, 2)
            and not any(named.values())
            and _is_fillable(self, low, high)
            and low <= high
        ):
            return filled.fill(self, uniforms(), high - low, low)
        return draw_uniform(self, *bounds, **named)

    with _shadowed("normal_", normal_), _shadowed("uniform_", uniform_):
        yield filled


def _normals() -> torch.Tensor:
    return torch.randn(_BLOCK, generator=torch.Generator().manual_seed(0), dtype=torch.float32)


def _uniforms() -> torch.Tensor:
    return torch.rand(_BLOCK, generator=torch.Generator().manual_seed(0), dtype=torch.float32)


@contextlib.contextmanager
def _shadowed(name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Give `torch.Tensor` a method in front of the one that it inherits."""
    setattr(torch.Tensor, name, function)
    try:
        yield
    finally:
        delattr(torch.Tensor, name)


def _is_fillable(tensor: torch.Tensor, first: Any, second: Any) -> bool:
    return (
        type(tensor) in _PLAIN
        and isinstance(first, (int, float))
        and isinstance(second, (int, float))
        and tensor.numel() >= LARGE
        and tensor.device.type == "cpu"
        and tensor.dtype.is_floating_point
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
        and not (tensor.requires_grad and torch.is_grad_enabled())  # torch refuses, and says why
        and not torch.compiler.is_compiling()
    )
