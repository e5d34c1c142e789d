"""The values of a captured graph when it runs in eager mode, as traits.

Invariant: the graph runs on copies, so that the program's own tensors stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from fuselight.shared.report import RecordedNode, TensorTraits
from fuselight.worker.repro.graph_text import GraphText
from fuselight.worker.repro.tensor_traits import traits_of


class GraphValues:
    """The traits of inputs and of what nodes return, by name."""

    def __init__(
        self, gm: torch.fx.GraphModule, text: GraphText, given: Sequence[Any], *, with_values: bool
    ) -> None:
        self.traits: dict[str, TensorTraits] = {}
        self.numbers: list[RecordedNode] = []
        """A line for each number among the inputs."""
        self._text, self._with_values = text, with_values
        for name, constant in text.constants.items():
            self.note(name, constant)
        placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
        for node, value in zip(placeholders, given, strict=False):
            name = text.names[node]
            if isinstance(value, torch.Tensor):
                self.note(name, value)
            else:
                self.numbers.append(_number(name, node, value, placeholders, text))
        try:
            with torch.no_grad():
                _TraitInterpreter(gm, self).run(*map(_copied, given))
        except Exception:  # noqa: BLE001, S110 - then the values inside the graph are not known
            pass

    def note(self, name: str, value: Any) -> None:
        """Keep the traits of a tensor."""
        if isinstance(value, torch.Tensor) and name not in self.traits:
            traits = traits_of(value, with_values=self._with_values)
            if traits is not None:
                self.traits[name] = traits

    def note_node(self, node: torch.fx.Node, value: Any) -> None:
        """Keep the traits of what a node returns."""
        name = self._text.names.get(node)
        if name is not None:
            self.note(name, value)


class _TraitInterpreter(torch.fx.Interpreter):
    def __init__(self, gm: torch.fx.GraphModule, values: GraphValues) -> None:
        super().__init__(gm)
        self._values = values

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        if n.op.startswith("call_"):
            self._values.note_node(n, result)
        return result


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return _plain(value)


def _plain(value: Any) -> Any:
    """A number instead of a symbolic one."""
    node = getattr(value, "node", None)
    return value if node is None else getattr(node, "hint", value)


def _number(
    name: str, node: torch.fx.Node, value: Any, placeholders: Sequence[torch.fx.Node], text: GraphText
) -> RecordedNode:
    """A line for a number: a size of an input where it is one, else the number itself."""
    symbol = str(node.meta.get("example_value", ""))
    for other in placeholders:
        example = other.meta.get("example_value")
        for dim, size in enumerate(getattr(example, "shape", ())):
            if isinstance(size, torch.SymInt) and str(size) == symbol:
                used = text.names[other]
                return RecordedNode(name, f"{used}.shape[{dim}]", (used,))
    return RecordedNode(name, repr(_plain(value)))
