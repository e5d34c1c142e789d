"""Runs captured graphs node by node, so that each call of a graph is known to be of a node, with its line.

Invariant: the results are those of the graph.
Source: torch/_dynamo/backends/debugging.py, aot_eager.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(frozen=True)
class RunningNode:
    """A node that is being executed."""

    node: torch.fx.Node
    is_backward: bool


@dataclass
class NodeRuns:
    """The nodes that are being executed in this process: an inner graph's after those of the graph that calls it."""

    running: list[RunningNode] = field(default_factory=list)

    @property
    def current(self) -> RunningNode | None:
        """The innermost of them."""
        return self.running[-1] if self.running else None

    def run_by_node(self, gm: torch.fx.GraphModule, *, is_backward: bool = False) -> Callable[..., Any]:
        """Return a function that runs the graph node by node."""

        def run(*args: Any) -> Any:
            return _Interpreter(gm, self, is_backward=is_backward).run(*args)

        return run

    def aot_eager(self, gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """As torch's backend `aot_eager`, with graphs that run node by node."""
        common: Any = importlib.import_module("torch._dynamo.backends.common")
        aot: Any = importlib.import_module("functorch.compile")

        def compiler(is_backward: bool) -> Callable[..., Any]:  # noqa: FBT001 - the only argument
            def compile_graph(graph: torch.fx.GraphModule, _inputs: Any) -> Any:
                return aot.make_boxed_func(self.run_by_node(graph, is_backward=is_backward))

            return compile_graph

        backend = common.aot_autograd(
            fw_compiler=compiler(is_backward=False),
            bw_compiler=compiler(is_backward=True),
            partition_fn=aot.min_cut_rematerialization_partition,
            keep_inference_input_mutations=True,
        )
        compiled: Callable[..., Any] = backend(gm, example_inputs)
        return compiled


class _Interpreter(torch.fx.Interpreter):
    def __init__(self, gm: torch.fx.GraphModule, runs: NodeRuns, *, is_backward: bool) -> None:
        super().__init__(gm)
        self._runs, self._is_backward = runs, is_backward
        self.extra_traceback = False  # an exception of the user's code keeps its text

    def run_node(self, n: torch.fx.Node) -> Any:
        self._runs.running.append(RunningNode(n, self._is_backward))
        try:
            return super().run_node(n)
        finally:
            self._runs.running.pop()
