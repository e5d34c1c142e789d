"""Programs with smaller tensors.

A size of an input is replaced wherever it stands: in the shapes of all inputs, and as a number of a line. Invariant: a
program with other sizes is a guess, which a run confirms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from fuselight.shared.report import TensorTraits
from fuselight_server.repro.model import SmallProgram

_SIZES = (2, 4, 8, 16, 32)
_MAX_FACTORS = 3


def smaller_sizes(program: SmallProgram) -> Iterator[SmallProgram]:
    """Programs in which one size is smaller, those with the largest size replaced by the smallest first."""
    sizes = {size for name in program.inputs for size in program.traits[name].shape}
    for size in sorted((size for size in sizes if size > _SIZES[0]), reverse=True)[:_MAX_FACTORS]:
        for less in _SIZES:
            if less < size:
                yield _with_size(program, size, less)


def _with_size(program: SmallProgram, size: int, less: int) -> SmallProgram:
    number = re.compile(rf"(?<![\w.]){size}(?![\w.])")
    nodes = tuple(replace(node, code=number.sub(str(less), node.code)) for node in program.nodes)
    traits = {name: _resized(known, size, less) for name, known in program.traits.items()}
    return replace(program, nodes=nodes, traits=traits)


def _resized(traits: TensorTraits, size: int, less: int) -> TensorTraits:
    is_whole = not traits.dtype.startswith(("float", "bfloat", "complex", "bool"))
    if is_whole and less <= traits.high < size:  # an index of what is smaller now, perhaps
        traits = replace(traits, high=float(less - 1), low=min(traits.low, float(less - 1)), values="")
    if size not in traits.shape:
        return traits
    shape = tuple(less if old == size else old for old in traits.shape)
    order = sorted(range(len(shape)), key=lambda dim: (traits.stride[dim], -dim))
    stride, step = [0] * len(shape), 1
    for dim in order:
        stride[dim] = step if traits.stride[dim] else 0
        step *= shape[dim] if traits.stride[dim] else 1
    return replace(traits, shape=shape, stride=tuple(stride), values="")
