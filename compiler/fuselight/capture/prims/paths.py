"""A Dynamo backend that records what each call of a graph decomposes into and runs the graph as captured.

Each operator is decomposed separately, on the fake tensors of AOTAutograd's trace; equal operators are decomposed once.
Invariant: a graph whose trace fails becomes a Problem; an operator whose decomposition fails is listed undecomposed; an
operator that decomposes into supported operators is not missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import compiled_results, errors, frames, operator_sets
from fuselight.adapters.torch_api.dynamo.names import target_name
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import OperatorPath, Phase, Problem, Stack, is_library_call
from fuselight.shared.report.failure import first_line

CORE_ATEN, PRIMS, INDUCTOR = "core-aten", "prims", "inductor"
_NAMED: dict[str, tuple[Callable[[], operator_sets.Table], Callable[[Any], bool]]] = {
    CORE_ATEN: (operator_sets.core_table, operator_sets.is_core),
    PRIMS: (operator_sets.prims_table, operator_sets.is_prim),
    INDUCTOR: (operator_sets.inductor_table, operator_sets.has_lowering),
}
_CALLS = frozenset({"call_function", "call_method", "call_module"})


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


_Levels = tuple[Sequence[str], ...]
"""What ATen operators become, by name: `aten` to `lacking` of an OperatorPath, in its order."""


class OperatorPaths:
    """The backend. `names` is the operator set to compare with; empty for none."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.paths: list[OperatorPath] = []
        self.problems: dict[Problem, None] = {}
        self._set = OperatorSet(names) if names else None
        self._known: dict[str, _Levels] = {}
        for name in self._set.unknown if self._set else ():
            self._problem(
                "operator_set", f"operator {name} of the set", "this torch has no operator of that name"
            )

    def __call__(
        self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **_asked: Any
    ) -> Callable[..., Any]:
        """Take a captured graph from Dynamo."""
        compile_id = frames.current_compile_id() or "?"
        try:
            operator_sets.read_aten_graph(gm, example_inputs, lambda aten: self._read(gm, aten, compile_id))
        except errors.Restart:
            raise  # Dynamo captures the frame again
        except Exception as error:  # noqa: BLE001 - the compiler may raise anything; the captured graph still runs
            why = f"{type(error).__name__}: {first_line(error)}"[:500]
            self._problem("operators", f"the operators of graph {compile_id}", why)
        return compiled_results.with_compiled_results(gm)

    def _read(self, gm: torch.fx.GraphModule, aten: torch.fx.GraphModule, compile_id: str) -> None:
        sources = _calls_by_source(gm)
        nodes = list(operator_sets.operators(aten))
        trains = any(map(operator_sets.is_backward, nodes))
        calls: dict[tuple[Any, Phase], tuple[str, Stack, list[_Levels]]] = {}
        for node in nodes:
            backward = operator_sets.is_backward(node)
            phase = Phase.BACKWARD if backward else Phase.FORWARD if trains else Phase.INFERENCE
            source = operator_sets.source_call(node)
            made_by = sources.get(source)
            stack = stacks.of_node(made_by) or stacks.of_node(node)
            call = calls.setdefault((source or stack or node, phase), (_call_name(made_by), stack, []))
            call[-1].append(self._levels(node))
        folded = Counter(
            _path(name, phase, stack, compile_id, of_nodes)
            for (_, phase), (name, stack, of_nodes) in calls.items()
        )
        self.paths += [replace(path, count=count) for path, count in folded.items()]

    def _levels(self, node: torch.fx.Node) -> _Levels:
        key = operator_sets.signature(node)
        if key in self._known:
            return self._known[key]
        names, having = operator_sets.operator_name, self._set
        core = self._try(node, lambda: operator_sets.decomposed(node, operator_sets.core_table()))
        prims = self._try(node, lambda: operator_sets.decomposed(node, operator_sets.prims_table()))
        inductor = self._try(node, lambda: operator_sets.decomposed(node, operator_sets.inductor_table()))
        falling = [
            value
            for value in inductor
            if operator_sets.falls_back(value) and not is_library_call(names(value))
        ]
        lacking: Sequence[Any] = ()
        if having is not None and not having.has(node.target):
            lacking = self._try(node, lambda: having.lacks(node))
        levels = ((node.target,), core, prims, inductor, falling, lacking)
        self._known[key] = tuple([names(function) for function in level] for level in levels)
        return self._known[key]

    def _try(self, node: torch.fx.Node, decompose: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
        try:
            return decompose()
        except Exception as error:  # noqa: BLE001 - a decomposition may raise anything; the operator is still known
            what = f"what {operator_sets.operator_name(node.target)} decomposes into"
            self._problem("decomposition", what, f"{type(error).__name__}: {first_line(error)}"[:300])
            return (node.target,)

    def _problem(self, stage: str, what: str, why: str) -> None:
        self.problems[Problem(stage, what, why)] = None


def _path(
    name: str, phase: Phase, stack: Stack, compile_id: str, of_nodes: Sequence[_Levels]
) -> OperatorPath:
    """The path of one call in one phase, from the levels of its operators in order."""
    aten, core, prims, inductor, fallback, lacking = (
        tuple(chain.from_iterable(level)) for level in zip(*of_nodes, strict=True)
    )
    return OperatorPath(name, phase, stack, compile_id, aten, core, prims, inductor, fallback, lacking)


def _calls_by_source(gm: torch.fx.GraphModule) -> dict[tuple[str, ...], torch.fx.Node]:
    """The calls of a Dynamo graph and its subgraphs, by the source that ATen nodes record of them."""
    return {
        source: node
        for part in gm.modules()
        if isinstance(part, torch.fx.GraphModule)
        for node in part.graph.nodes
        if node.op in _CALLS and (source := operator_sets.source_call(node))
    }


def _call_name(node: torch.fx.Node | None) -> str:
    if node is None:
        return ""
    return f"torch.Tensor.{node.target}" if node.op == "call_method" else target_name(node.target)
