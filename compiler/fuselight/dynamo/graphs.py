"""Converts an FX graph that Dynamo captured to a Graph.

Invariant: the graph is read before the backend gets it, because a backend may change it in place.
"""

from __future__ import annotations

from typing import Any

import torch

from fuselight.dynamo import stacks
from fuselight.report import Graph, text_key
from fuselight.torch_api import artifacts

_CALLS = ("call_function", "call_method", "call_module")
_DTYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.bool: "bool",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8",
    torch.complex64: "c64", torch.complex128: "c128",
}  # fmt: skip
_PUBLIC = (
    ("torch._C._nn.", "torch.nn.functional."),
    ("torch._VariableFunctionsClass.", "torch."),
    ("torch._C._linalg.linalg_", "torch.linalg."),
    ("torch._C._fft.fft_", "torch.fft."),
    ("torch._C._special.special_", "torch.special."),
)
"""Where the functions that a graph calls are bound, and where a user finds them."""


def read_graph(module: torch.fx.GraphModule, texts: dict[str, str]) -> Graph:
    """The Graph; its source goes to `texts` under its key."""
    operators = [node for node in module.graph.nodes if node.op in _CALLS]
    text = str(module.code).strip()
    key = text_key(text)
    texts.setdefault(key, text)
    return Graph(
        operators=len(operators),
        text_key=key,
        lines=tuple(stacks.of_node(node) for node in operators),
        targets=tuple(target_name(node.target) for node in operators),
        inputs=tuple(_input_text(node) for node in module.graph.nodes if node.op == "placeholder"),
    )


def target_name(target: Any) -> str:
    """What a node of a graph calls, as a user would name it: `torch.nn.functional.linear`; methods by bare name."""
    if isinstance(target, str):
        return target
    if isinstance(target, artifacts.OpOverload):
        return str(target)
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or str(target)
    module = getattr(target, "__module__", None) or ""
    if module in {"_operator", "builtins", ""}:
        return str(name)
    full = f"{module}.{name}"
    for private, public in _PUBLIC:
        if full.startswith(private):
            return public + full[len(private) :]
    return full


def dtype_name(dtype: torch.dtype) -> str:
    """The short name of a dtype, as `bf16`; torch's own name where there is none."""
    return _DTYPES.get(dtype, str(dtype).removeprefix("torch."))


def _input_text(node: torch.fx.Node) -> str:
    value = node.meta.get("example_value")
    if isinstance(value, torch.Tensor):
        return f"{node.name}: {dtype_name(value.dtype)}[{', '.join(str(size) for size in value.shape)}]"
    return node.name if value is None else f"{node.name}: {value}"
