"""Leaves out layers of a model that repeat others, for a trace that has the same findings without them.

Invariant: of layers with the same classes, parameters and settings, the first `KEPT` stay; numbers of layers, such as
`layer_idx`, are no settings. Afterwards each model is as before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

KEPT = 2
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_NUMBERS = ("idx", "index", "layer", "number")
"""Parts of the names of attributes that number a layer."""


@dataclass(frozen=True)
class RepeatedLayers:
    """A list of layers, and those of them that stay."""

    layers: torch.nn.Module
    kept: dict[str, torch.nn.Module]


def find_repeats(modules: Iterable[torch.nn.Module]) -> tuple[RepeatedLayers, ...]:
    """Find the lists in `modules` that have more equal layers than need be traced."""
    repeated_layers: dict[torch.nn.Module, RepeatedLayers] = {}
    for module in modules:
        for part in module.modules():
            if part not in repeated_layers and isinstance(part, (torch.nn.ModuleList, torch.nn.Sequential)):
                layers = list(part.children())
                kept = list(_first_of_each(layers)) if len(layers) > KEPT else layers
                if len(kept) < len(layers) == len(part):
                    repeated_layers[part] = RepeatedLayers(
                        part, {str(index): module for index, module in enumerate(kept)}
                    )
    return tuple(repeated_layers.values())


@contextlib.contextmanager
def without_repeats(repeats: Iterable[RepeatedLayers]) -> Iterator[None]:
    """Inside, the lists have the layers that stay."""
    before: list[tuple[dict[str, Any], Any]] = []
    try:
        for repeat in repeats:
            attributes = vars(repeat.layers)
            before.append((attributes, attributes["_modules"]))
            attributes["_modules"] = dict(repeat.kept)
        yield
    finally:
        for attributes, modules in before:
            attributes["_modules"] = modules


def _first_of_each(layers: Iterable[torch.nn.Module]) -> Iterator[torch.nn.Module]:
    counts: dict[object, int] = {}
    for layer in layers:
        kind = _kind(layer)
        counts[kind] = counts.get(kind, 0) + 1
        if counts[kind] <= KEPT:
            yield layer


def _kind(layer: torch.nn.Module) -> object:
    """What two layers have in common that do the same to inputs of the same kind."""
    parts = tuple((path, type(value), _settings(value)) for path, value in layer.named_modules())
    tensors = (*layer.named_parameters(), *layer.named_buffers())
    return parts, tuple((name, tensor.shape, tensor.dtype, tensor.requires_grad) for name, tensor in tensors)


def _settings(module: torch.nn.Module) -> object:
    return (
        tuple(
            (name, type(value), value)
            for name, value in vars(module).items()
            if isinstance(value, (str, bool, int, float, type(None)))
            and not any(part in name for part in _NUMBERS)
        ),
        tuple(len(vars(module).get(name, ())) for name in _HOOKS),
    )
