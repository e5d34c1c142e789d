"""Channels last: the weights of 2-D convolutions and the images of a captured graph, stored with the channels last.

Invariant: values do not change, and neither do the strides of what a graph returns. A weight is converted once, in
place, as `model.to(memory_format=torch.channels_last)` does; no weight is converted unless the graph can run so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from fuselight.adapters.torch_api.dynamo import captured_graphs, errors

_CONVOLUTIONS = (torch.conv2d, torch.conv_transpose2d)
_IMAGE_DIMENSIONS = 4
_LAST, _FIRST = torch.channels_last, torch.contiguous_format

_converted: Any = WeakIdKeyDictionary()
"""Weights that this module has converted, by identity: an entry lives as long as its weight."""


def to_channels_last(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
    """Convert what a graph's convolutions read.

    Raises torch's request to capture the frame again if weights were converted: their new strides are then captured.
    """
    convolutions = [
        node for node in gm.graph.nodes if node.op == "call_function" and node.target in _CONVOLUTIONS
    ]
    if not convolutions:
        return
    values = dict(zip(captured_graphs.placeholders(gm), inputs, strict=False))
    weights = [
        (node, values.get(node)) for node in dict.fromkeys(map(_weight, convolutions)) if node in values
    ]
    new: list[tuple[torch.fx.Node, Any]] = [weight for weight in weights if _is_convertible(weight[1])]
    if new:
        formats = dict.fromkeys((node.name for node, _ in new), _LAST)
        again = errors.capture_again("weights are stored with the channels last from now on")
        if again is None or captured_graphs.output_values(gm, formats) is None:
            return  # the graph depends on contiguous weights
        for _, value in new:
            _convert(value)
        raise again
    own = [node.name for node, value in weights if isinstance(value, torch.Tensor) and value in _converted]
    before = captured_graphs.output_values(gm, dict.fromkeys(own, _FIRST))
    _convert_images(gm, convolutions, values)
    _keep_output_strides(gm, before)
    gm.recompile()


def _weight(node: torch.fx.Node) -> Any:
    return node.kwargs.get("weight", node.args[1] if len(node.args) > 1 else None)


def _image(node: torch.fx.Node) -> Any:
    return node.kwargs.get("input", node.args[0] if node.args else None)


def _is_convertible(value: object) -> bool:
    return (
        type(value) in (torch.Tensor, torch.nn.Parameter)
        and isinstance(value, torch.Tensor)
        and value.dim() == _IMAGE_DIMENSIONS
        and value.layout is torch.strided
        and value.is_leaf
        and value.is_contiguous()
        and not value.is_contiguous(memory_format=_LAST)
        and not captured_graphs.shares_storage(value)
    )


def _convert(value: torch.Tensor) -> None:
    with torch.no_grad():
        value.data = value.data.contiguous(memory_format=_LAST)
    _converted[value] = None


def _convert_images(
    gm: torch.fx.GraphModule, convolutions: Sequence[torch.fx.Node], values: dict[torch.fx.Node, Any]
) -> None:
    """Convert each image once, before the convolutions that read it."""
    for image in dict.fromkeys(map(_image, convolutions)):
        value = captured_graphs.example_value(image) if image in values else None
        if not isinstance(value, torch.Tensor) or value.dim() != _IMAGE_DIMENSIONS:
            continue
        if value.is_contiguous(memory_format=_LAST):
            continue
        with gm.graph.inserting_before(captured_graphs.placeholders(gm)[-1].next):
            method = gm.graph.call_method("contiguous", (image,), {"memory_format": _LAST})
        for node in convolutions:
            if _image(node) is image:
                node.replace_input_with(image, method)


def _keep_output_strides(gm: torch.fx.GraphModule, before: list[Any] | None) -> None:
    """Return tensors as contiguous if they were so `before`: code after a graph break views them."""
    after = captured_graphs.output_values(gm, {})
    results = captured_graphs.outputs_of(gm)
    if before is None or after is None or not len(before) == len(after) == len(results):
        return
    output = captured_graphs.output_node(gm)
    kept = list(results)
    for index, (node, was, now) in enumerate(zip(results, before, after, strict=True)):
        if not isinstance(was, torch.Tensor) or not isinstance(now, torch.Tensor):
            continue
        if isinstance(node, torch.fx.Node) and was.is_contiguous() and not now.is_contiguous():
            with gm.graph.inserting_before(output):
                kept[index] = gm.graph.call_method("contiguous", (node,))
    output.args = (tuple(kept),)
