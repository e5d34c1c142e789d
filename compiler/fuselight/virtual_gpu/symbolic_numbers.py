# ruff: noqa: SLF001 - private names are this package's business
"""Symbolic numbers: the program's floats and values computed from sizes, expressed as operators on tensors.

With dynamic sizes Dynamo passes a float as a tensor of float64 on the CPU, and torch turns what is computed of it into
operators on that tensor, in a pass over what AOTAutograd has decomposed. Here a graph is decomposed later, so the pass
waits for that. Invariant: the pass runs once for each graph that AOTAutograd asked it for, and on no other.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.fx
from torch.utils._sympy.symbol import SymT, symbol_is_type

from fuselight.torch_api.patching import patched

_ITEM = torch.ops.aten._local_scalar_dense.default
CALLERS = (
    "torch._functorch._aot_autograd.graph_compile",
    "torch._functorch._aot_autograd.jit_compile_runtime_wrappers",
)
"""Where AOTAutograd looks the pass up: that of torch 2.9 and newer, and that of older ones."""
_TENSORIFY = "tensorify_python_scalars"


@contextlib.contextmanager
def numbers_later() -> Iterator[Callable[[torch.fx.GraphModule], None]]:
    """Defer the pass that AOTAutograd requests; the yielded function runs it on a graph that requested it."""
    owner, real = _caller()
    asked: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = []

    def ask(gm: torch.fx.GraphModule, *args: Any) -> None:
        asked.append((gm, args))

    def run(gm: torch.fx.GraphModule) -> None:
        for index, (of, args) in enumerate(asked):
            if of is gm:
                del asked[index]
                real(gm, *args)
                return

    with contextlib.nullcontext() if owner is None else patched(owner, _TENSORIFY, ask):
        yield run


def _caller() -> tuple[Any, Any]:
    for name in CALLERS:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            if hasattr(module, _TENSORIFY):
                return module, getattr(module, _TENSORIFY)
    return None, None


def is_item_of_float(node: torch.fx.Node) -> bool:
    """Whether a node takes a float of the program's out of the tensor that Dynamo passes it as."""
    value = node.meta.get("val")
    if node.target is not _ITEM or not isinstance(value, torch.SymFloat):
        return False
    symbols = value.node.expr.free_symbols
    return bool(symbols) and all(symbol_is_type(symbol, SymT.FLOAT) for symbol in symbols)


def passed_floats(gm: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """The inputs of a graph that are floats of the program's: on every device they stay on the CPU."""
    return {
        node.args[0]
        for node in gm.graph.find_nodes(op="call_function", target=_ITEM)
        if is_item_of_float(node)
        and isinstance(node.args[0], torch.fx.Node)
        and node.args[0].op == "placeholder"
    }
