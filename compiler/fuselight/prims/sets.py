"""The operators that a backend supports, and the missing ones for a node of an ATen graph.

Invariant: an operator that decomposes into supported operators is not missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from fuselight.torch_api import operator_sets

CORE_ATEN, PRIMS, INDUCTOR = "core-aten", "prims", "inductor"
_NAMED: dict[str, tuple[Callable[[], operator_sets.Table], Callable[[Any], bool]]] = {
    CORE_ATEN: (operator_sets.core_table, operator_sets.is_core),
    PRIMS: (operator_sets.prims_table, operator_sets.is_prim),
    INDUCTOR: (operator_sets.inductor_table, operator_sets.has_lowering),
}


class OperatorSet:
    """A named set (`core-aten`, `prims` or `inductor`) or a list of operators.

    A name with an overload, `aten.add.Tensor`, means that overload; a name without one means all overloads.
    """

    def __init__(self, names: Sequence[str]) -> None:
        named = [name for name in names if name in _NAMED]
        self._known = [_NAMED[name][1] for name in named]
        self._table = _NAMED[named[0]][0]() if len(names) == 1 and named else None
        self._names = {name.removeprefix("torch.ops.") for name in names} - set(named)
        self.unknown = tuple(sorted(name for name in self._names if not operator_sets.is_known(name)))
        """Names for which this torch has no operator."""

    def has(self, operator: Any) -> bool:
        """Whether the backend supports an operator."""
        name = operator_sets.operator_name(operator)
        if name in self._names or name.rpartition(".")[0] in self._names:
            return True
        return any(knows(operator) for knows in self._known)

    def lacks(self, node: torch.fx.Node) -> tuple[Any, ...]:
        """The missing operators for a node: those at which its decomposition ends."""
        if self._table is not None:
            return operator_sets.decomposed(node, self._table, self.has)
        core, whole = operator_sets.core_table(), operator_sets.prims_table()
        return operator_sets.decomposed(node, core, self.has, further=whole)
