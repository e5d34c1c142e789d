# ruff: noqa: SLF001 - private names are this package's business
"""Moves a captured graph to another device: its inputs, its constants, its `device=` arguments, its fake values.

Invariant: nodes stay the same nodes with the same metadata but for the values; no real tensor is moved. A node whose
operator cannot be run on fakes of that device keeps its shape and strides from the CPU.
"""

from __future__ import annotations

from typing import Any

import torch
import torch._guards
import torch.fx
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils import _pytree as pytree

CUDA = torch.device("cuda", 0)


def retarget(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Put an ATen graph of fake CPU tensors onto `cuda:0`, in place."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    values = [node.meta.get("val") for node in placeholders]
    fake = torch._guards.detect_fake_mode([value for value in values if isinstance(value, torch.Tensor)])
    if fake is None:  # no tensor goes in: the mode is that of the constants
        fake = torch._guards.detect_fake_mode()
    move = _Mover(fake)
    for node in gm.graph.nodes:
        if node.op in {"placeholder", "output"}:
            continue
        node.args = pytree.tree_map(_on_cuda, node.args, is_leaf=_is_node)
        node.kwargs = pytree.tree_map(_on_cuda, node.kwargs, is_leaf=_is_node)
        if node.op == "get_attr":
            _move_constant(gm, node, move)
    _name_devices(gm)
    gm.recompile()
    _Propagate(gm, fake, move).propagate_dont_convert_inputs(*[move(value) for value in values])
    return gm


class _Mover:
    """Makes of a CPU tensor a fake CUDA tensor of the same shape, strides and dtype."""

    def __init__(self, fake: Any) -> None:
        self._fake = fake

    def __call__(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu" or self._fake is None:
            return value
        with self._fake:
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=CUDA)


class _Propagate(FakeTensorProp):
    def __init__(self, gm: torch.fx.GraphModule, fake: Any, move: _Mover) -> None:
        super().__init__(gm, mode=fake)
        self._move = move

    def run_node(self, n: torch.fx.Node) -> Any:
        known = n.meta.get("val")
        try:
            return super().run_node(n)
        except (RuntimeError, NotImplementedError) as error:
            # An operator that asks for CUDA itself; anything else is a fault of the graph.
            if "CUDA" not in str(error) and "not linked" not in str(error):
                raise
            n.meta["val"] = pytree.tree_map(self._move, known)
            return n.meta["val"]


def _is_node(value: Any) -> bool:
    return isinstance(value, torch.fx.Node)


def _on_cuda(value: Any) -> Any:
    return CUDA if isinstance(value, torch.device) and value.type == "cpu" else value


def _move_constant(gm: torch.fx.GraphModule, node: torch.fx.Node, move: _Mover) -> None:
    """A tensor that the graph holds. A small one stays readable to Inductor, which would inline its value."""
    constant = getattr(gm, str(node.target), None)
    if isinstance(constant, torch.Tensor) and constant.device.type == "cpu":
        setattr(gm, str(node.target), move(constant))


def _name_devices(gm: torch.fx.GraphModule) -> None:
    """Give factory functions the device that they took by default."""
    for node in gm.graph.nodes:
        schema = getattr(node.target, "_schema", None)
        if node.op != "call_function" or schema is None or node.kwargs.get("device") is not None:
            continue
        takes_tensor = any(
            isinstance(arg, torch.fx.Node) for arg in pytree.tree_leaves((node.args, node.kwargs))
        )
        if not takes_tensor and any(
            argument.name == "device" and argument.kwarg_only for argument in schema.arguments
        ):
            node.kwargs = {**node.kwargs, "device": CUDA}
