# ruff: noqa: SLF001, SIM905 - private names are this package's business; lists of names are words
"""Has Dynamo's graph call what ATen would call for tensors on a CUDA device, where its C++ asks for the device.

AOTAutograd traces on the CPU, so these questions would be answered for the CPU: whether a recurrent cell is one kernel,
what `autocast("cuda")` casts. Attention is asked for wherever it is traced (attention.py); here only where a graph
names the CPU's own operator. Invariant: only nodes that ask are changed, in place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.amp.autocast_mode
import torch.fx

from fuselight.adapters.virtual_gpu.attention import names_the_cpus, takes_place_of
from fuselight.adapters.virtual_gpu.cuda_operators import gru_cell, lstm_cell
from fuselight.shared.report import Device

_LOWER = frozenset(
    """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d conv_tbc convolution _convolution linear
    matmul mm bmm mv addmm addmv addbmm baddbmm addr prelu chain_matmul multi_dot linalg_multi_dot linalg_vecdot einsum
    bilinear lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell scaled_dot_product_attention multi_head_attention_forward
    __matmul__ __rmatmul__""".split()
)
_FLOAT = frozenset(
    """acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow __pow__ __rpow__ softplus
    layer_norm native_layer_norm group_norm norm frobenius_norm nuclear_norm cosine_similarity poisson_nll_loss
    cosine_embedding_loss nll_loss hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss
    margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
    binary_cross_entropy_with_logits cross_entropy dist pdist cdist renorm logsumexp""".split()
)
_FLOAT_RESULT = frozenset("prod softmax log_softmax cumprod cumsum sum".split())
"""Those whose `dtype=` says in what they compute."""
_WIDEST = frozenset(
    "addcdiv addcmul atan2 cross dot vdot grid_sample grid_sampler index_put tensordot scatter_add".split()
)


def dispatch_for(gm: torch.fx.GraphModule, device: Device) -> None:
    """Change a graph of Dynamo's to what `device` would get, in place."""
    replaced: dict[Any, Callable[..., Any]] = {torch.lstm_cell: lstm_cell, torch.gru_cell: gru_cell}
    attention = takes_place_of(device)
    for module in gm.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        _cast(module)
        for node in module.graph.nodes:
            if node.op == "call_function" and node.target in replaced:
                node.target = replaced[node.target]
            elif names_the_cpus(node):
                node.target = attention
        module.recompile()


def _cast(gm: torch.fx.GraphModule) -> None:
    """Write the casts of `autocast("cuda")` into a graph: over CPU tensors torch makes none.

    The lists are those of aten/src/ATen/autocast_mode.h for CUDA, by the names that functions and methods have.
    """
    around = torch.get_autocast_dtype("cuda") if torch.is_autocast_enabled("cuda") else None
    regions: dict[torch.fx.Node, torch.dtype | None] = {}
    for node in list(gm.graph.nodes):
        if node.target is torch.amp.autocast_mode._enter_autocast:
            kind, dtype, enabled = (*node.args, None, None, None)[:3]
            if kind == "cuda":
                regions[node] = around
                around = (dtype or torch.get_autocast_dtype("cuda")) if enabled is not False else None
        elif node.target is torch.amp.autocast_mode._exit_autocast:
            if node.args[0] in regions:
                around = regions[node.args[0]]
        elif around is not None and node.op in {"call_function", "call_method"}:
            _cast_arguments(node, around)


def _cast_arguments(node: torch.fx.Node, lower: torch.dtype) -> None:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if name in _FLOAT_RESULT:
        if node.kwargs.get("dtype") is None:
            node.target, node.op = _in_float(node.target), "call_function"
        return
    if name in _LOWER:
        to: torch.dtype | None = lower
    elif name in _FLOAT:
        to = torch.float32
    elif name in _WIDEST:
        to = None
    else:
        return
    tensors = list(node.all_input_nodes)

    def cast(arg: torch.fx.Node) -> torch.fx.Node:
        with node.graph.inserting_before(node):
            function = node.graph.call_function(_to, (arg, to, tensors if to is None else ()))
        function.meta.update(
            {key: value for key, value in node.meta.items() if key not in {"example_value", "val"}}
        )
        return function

    node.args = torch.fx.map_arg(node.args, cast)
    node.kwargs = torch.fx.map_arg(node.kwargs, cast)


def _in_float(target: Any) -> Callable[..., Any]:
    """A function or method with `dtype=torch.float32` for tensors that autocast would cast."""

    def call(value: Any, *args: Any, **named: Any) -> Any:
        function = getattr(torch.Tensor, target) if isinstance(target, str) else target
        if _is_cast(value):
            named["dtype"] = torch.float32
        return function(value, *args, **named)

    return call


def _is_cast(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != torch.float64


def _to(value: Any, dtype: torch.dtype | None, others: Sequence[Any]) -> Any:
    """A tensor in `dtype`, or in the widest of `others`; what autocast leaves alone as it is."""
    if not _is_cast(value):
        return value
    if dtype is None:
        dtypes = {other.dtype for other in others if _is_cast(other)}
        dtype = torch.float32 if torch.float32 in dtypes else value.dtype
    return value.to(dtype)
