"""Compiles the repeated blocks of a model one by one instead of the whole: one compile serves all equal blocks.

Invariant: a model without such blocks, or that the source compiles itself, is refused with a `ConfigurationError`
before anything is compiled. What is not in a block runs in eager mode.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from fuselight.adapters.torch_api.dynamo import targets
from fuselight.capture.calls.calls import Prepared
from fuselight.measure.measured_call import modules_of
from fuselight.shared.configurations import ConfigurationError
from fuselight.worker.child.repeated_layers import find_repeats


def find_blocks(prepared: Prepared) -> dict[str, torch.nn.Module]:
    """The repeated blocks that a call reaches, by name: `layers.0`, or `input 0.layers.0` for those of an argument.

    Blocks within a block are part of it.
    """
    modules: dict[str, torch.nn.Module] = {}
    within: set[torch.nn.Module] = set()
    for name, module in modules_of(prepared):
        lists = {repeat.layers for repeat in find_repeats([module])}
        for path, part in module.named_modules():
            if part not in lists or part in within:
                continue
            for index, block in part.named_children():
                within.update(block.modules())
                modules[".".join(filter(None, (name, path, index)))] = block
    return modules


def compile_blocks(prepared: Prepared) -> tuple[str, ...]:
    """Have every later call of each block compiled; returns their names. Raises ConfigurationError."""
    if targets.is_compiled(prepared.function) or any(_compiled(prepared)):
        raise ConfigurationError("`blocks` cannot be measured: the source compiles the target itself")
    blocks = find_blocks(prepared)
    if not blocks:
        raise ConfigurationError(
            "`blocks` changes nothing: the model has no list of more than two equal layers"
        )
    for block in blocks.values():
        block.compile(dynamic=prepared.options.dynamic)
    return tuple(blocks)


def _compiled(prepared: Prepared) -> Iterator[bool]:
    """Whether a module that the call reaches is compiled, module by module."""
    for _, module in modules_of(prepared):
        yield from (targets.is_compiled(part) for part in module.modules())
