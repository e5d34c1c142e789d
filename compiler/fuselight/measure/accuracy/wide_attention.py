"""Attention in float64 in the place of a GPU's fused operators, which have no kernel for it.

Invariant: values are those of the operator's definition; one that draws random numbers is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

_OPERATORS = tuple(f"aten::_scaled_dot_product_{kind}_attention" for kind in ("flash", "efficient", "cudnn"))
_CUDNN = "cudnn"
_MAX_SCORES = 1 << 28
"""Elements of the scores: 2 GiB in float64."""


def wide_form(operator: Any) -> Callable[..., Any]:
    """What computes the results of `operator` from float64: the operator itself unless it is fused attention.

    Raises ValueError when it is called for attention with dropout, or with more than 268 million scores.
    """
    schema = getattr(operator, "_schema", None)
    name = getattr(schema, "name", "")
    if schema is None or not name.startswith(_OPERATORS):
        target: Callable[..., Any] = operator
        return target
    names = [argument.name for argument in schema.arguments]

    def attention(*args: Any, **named: Any) -> tuple[torch.Tensor | None, ...]:
        given = {**dict(zip(names, args, strict=False)), **named}
        return _gradients(given) if name.endswith("_backward") else _results(given, is_cudnn=_CUDNN in name)

    return attention


def _results(given: Mapping[str, Any], *, is_cudnn: bool) -> tuple[torch.Tensor | None, ...]:
    """The output, of shape (batch, heads, rows, size), and the logarithm of each row's sum; the rest is state."""
    scores = _scores(given, given["query"], given["key"])
    sums = scores.logsumexp(-1)
    return _output(scores, given["value"]), sums.unsqueeze(-1) if is_cudnn else sums, *(None,) * 7


def _gradients(given: Mapping[str, Any]) -> tuple[torch.Tensor | None, ...]:
    """Those of query, key, value and bias."""
    with torch.enable_grad():
        inputs = {
            name: given[name].detach().requires_grad_()
            for name in ("query", "key", "value", "attn_bias")
            if isinstance(given.get(name), torch.Tensor)
        }
        scores = _scores({**given, **inputs}, inputs["query"], inputs["key"])
        output = _output(scores, inputs["value"])
        gradient = given["grad_out"] if "grad_out" in given else given["grad_out_"]
        partials = torch.autograd.grad(output, list(inputs.values()), gradient)
    gradients = dict(zip(inputs, partials, strict=True))
    return tuple(gradients.get(name) for name in ("query", "key", "value", "attn_bias"))


def _scores(given: Mapping[str, Any], query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    if given.get("dropout_p"):
        raise ValueError("attention with dropout draws random numbers")
    rows, columns = query.size(-2), key.size(-2)
    if query.numel() // query.size(-1) * columns > _MAX_SCORES:
        raise ValueError("its scores in float64 are too large")
    scale = given.get("scale")
    scores: torch.Tensor = (
        query
        @ _heads(key, query).transpose(-2, -1)
        * (1 / math.sqrt(query.size(-1)) if scale is None else scale)
    )
    if isinstance(given.get("attn_bias"), torch.Tensor):
        scores = scores + given["attn_bias"]
    if given.get("is_causal"):
        future = torch.ones(rows, columns, dtype=torch.bool, device=query.device).triu(1)
        scores = scores.masked_fill(future, -math.inf)
    return scores


def _output(scores: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return scores.softmax(-1) @ _heads(value, scores)


def _heads(tensor: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
    """Keys or values with a head for each of the queries."""
    return (
        tensor.repeat_interleave(query.size(1) // tensor.size(1), 1)
        if tensor.size(1) != query.size(1)
        else tensor
    )
