"""Replays kernels of generated code on their own inputs: each buffer next to the operators that it stands for.

The operators run from buffers that earlier kernels wrote, in their own dtype and in float64, so that an error is the
kernel's own. Invariant: a buffer is called wrong only if it holds the value of no other operator of its graph, either.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.node import map_arg

from fuselight.adapters.torch_api.inductor.kernel_recording import LoweredGraph, RecordedBuffer
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import KernelReplay, Stack

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_TIMES_EAGER, _STEPS = 4.0, 8.0
_MEAN_STEPS = 1.0
"""Rounding steps that a kernel may be off, besides a multiple of those of its operators: the largest, and the mean."""
_REDUCTIONS = ("aten.sum", "aten.mean", "aten.mm", "aten.bmm", "aten.addmm")
Values = Mapping[torch.fx.Node, torch.Tensor]


@dataclass(frozen=True)
class ReplayedLine:
    """What a replay shows."""

    replay: KernelReplay
    stack: Stack = ()
    """Of the operator that the first wrong buffer stands for."""


def replay_kernels(graphs: Sequence[LoweredGraph]) -> ReplayedLine:
    """Judge the buffers of one call."""
    counts: dict[str, Any] = {"judged": 0, "unmapped": 0, "not_evaluated": 0}
    first: tuple[RecordedBuffer, torch.fx.Node, tuple[float, float]] | None = None
    for graph in graphs:
        cut: dict[torch.fx.Node, torch.Tensor] = _inputs_of(graph)
        for buffer in graph.buffers.values():
            node = graph.nodes.get(buffer.name)
            if node is None or not _is_like(node, buffer.value):
                counts["unmapped"] += 1
                continue
            try:
                errors = None if buffer.is_written_again else _errors(buffer.value, node, cut)
                is_wrong = errors is not None and _is_wrong(errors)
                if is_wrong and _holds_another(buffer.value, node, cut):
                    counts["unmapped"] += 1
                    continue
            except Exception:  # noqa: BLE001 - an operator may lack a form in float64
                errors, is_wrong = None, False
            counts["judged" if errors is not None else "not_evaluated"] += 1
            if is_wrong and first is None and errors is not None:
                first = buffer, node, errors[0]
            cut[node] = buffer.value
    if first is None:
        return ReplayedLine(KernelReplay(**counts))
    buffer, node, (ours, eager) = first
    stack = tuple(place for place in stacks.of_node(node) if stacks.is_shown(place.path))
    return ReplayedLine(KernelReplay(buffer.kernel, buffer.name, ours, eager, **counts), stack)


def _inputs_of(graph: LoweredGraph) -> dict[torch.fx.Node, torch.Tensor]:
    return {
        node: graph.inputs[node.name]
        for node in graph.graph.nodes
        if node.op == "placeholder" and node.name in graph.inputs
    }


def _is_like(node: torch.fx.Node, value: torch.Tensor) -> bool:
    expected = node.meta.get("val")
    return (
        isinstance(expected, torch.Tensor)
        and tuple(expected.shape) == tuple(value.shape)
        and expected.dtype is value.dtype
        and value.is_floating_point()
        and bool(value.numel())
    )


_Errors = tuple[tuple[float, float], tuple[float, float], bool]
"""The largest error of the kernel and of its operators in rounding steps, the mean ones, whether NaN are elsewhere."""


def _errors(value: torch.Tensor, node: torch.fx.Node, cut: Values) -> _Errors:
    own = _evaluated(node, cut, is_wide=False)
    known: dict[torch.fx.Node, Any] = {}
    wide = _evaluated(node, cut, is_wide=True, known=known)
    finite = value.isfinite() & own.isfinite() & wide.isfinite()
    places = (_kinds(value) != _kinds(own)) & (_kinds(value) != _kinds(wide.to(value.dtype)))
    if not bool(finite.any()):
        return (0.0, 0.0), (0.0, 0.0), bool(places.any())
    exact = wide[finite]
    size = torch.maximum(exact.abs(), exact.square().mean().sqrt())
    magnitude = _magnitude(node, {**cut, **known})
    if magnitude is not None:
        size = torch.maximum(size, magnitude[finite])
    step = torch.finfo(value.dtype).eps * size.clamp_min(torch.finfo(value.dtype).tiny)
    ours, eager = ((tensor.double()[finite] - exact).abs() / step for tensor in (value, own))
    return (
        (float(ours.max()), float(eager.max())),
        (float(ours.mean()), float(eager.mean())),
        bool(places.any()),
    )


def _is_wrong(errors: _Errors) -> bool:
    (ours, eager), (mean, eager_mean), is_elsewhere = errors
    return (
        is_elsewhere or ours > _TIMES_EAGER * eager + _STEPS or mean > _TIMES_EAGER * eager_mean + _MEAN_STEPS
    )


def _kinds(tensor: torch.Tensor) -> torch.Tensor:
    """0 for a number, others for NaN and each infinity."""
    return tensor.isnan() * 1 + tensor.isposinf() * 2 + tensor.isneginf() * 3


def _holds_another(value: torch.Tensor, node: torch.fx.Node, cut: Values) -> bool:
    """Whether a buffer has the value of another operator: Inductor's origin of a buffer may be of its neighbor."""
    for other in node.graph.nodes:
        if other is node or other.op != "call_function" or not _is_like(other, value):
            continue
        try:
            if not _is_wrong(_errors(value, other, cut)):
                return True
        except Exception:  # noqa: BLE001, S112 - as above
            continue
    return False


def _evaluated(
    node: torch.fx.Node, cut: Values, *, is_wide: bool, known: dict[torch.fx.Node, Any] | None = None
) -> Any:
    """The value of a node from the buffers in `cut`; `known` gets those of the nodes between."""
    values: dict[torch.fx.Node, Any] = {} if known is None else known

    def value_of(other: torch.fx.Node) -> Any:
        if other in cut:
            return _widened(cut[other], is_wide=is_wide)
        if other not in values:
            values[other] = run(other)
        return values[other]

    def run(other: torch.fx.Node) -> Any:
        if other.op == "get_attr":
            return _widened(getattr(other.graph.owning_module, str(other.target)), is_wide=is_wide)
        if other.op != "call_function":
            raise ValueError(f"{other.name} is an input without a value")
        args, kwargs = map_arg((other.args, other.kwargs), value_of)
        target: Any = other.target
        if is_wide:
            args = tuple(_wide_dtype(part) for part in args)
            kwargs = {name: _wide_dtype(part) for name, part in kwargs.items()}
        return _widened(target(*args, **kwargs), is_wide=is_wide)

    with torch.no_grad():
        return run(node)


def _widened(value: Any, *, is_wide: bool) -> Any:
    return value.double() if is_wide and isinstance(value, torch.Tensor) and value.dtype in _FLOATS else value


def _wide_dtype(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _FLOATS else value


def _magnitude(node: torch.fx.Node, values: Mapping[torch.fx.Node, Any]) -> torch.Tensor | None:
    """The scale of a reduction: the same over absolute values, as its error grows with them and not with its result."""
    if not str(node.target).startswith(_REDUCTIONS):
        return None
    try:
        args = map_arg(
            node.args,
            lambda other: (
                values[other].double().abs() if values[other].is_floating_point() else values[other]
            ),
        )
        target: Any = node.target
        scale: torch.Tensor = target(*args, **{name: _wide_dtype(part) for name, part in node.kwargs.items()})
    except (KeyError, RuntimeError, TypeError):
        return None
    return scale
