# ruff: noqa: SLF001 - private names are this package's business
"""Names of operators and dtypes as a user writes them."""

from __future__ import annotations

import re
from typing import Any

import torch

from fuselight.adapters.torch_api.inductor import artifacts

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
_OF_DTENSOR = re.compile(r"prim[ _](?P<name>\w+)$")
"""The functions that Dynamo made of methods of DTensor before torch 2.13: local ones, whose `__name__` says which."""


def target_name(target: Any) -> str:
    """What a node of a graph calls, as a user would name it: `torch.nn.functional.linear`; methods by bare name."""
    if isinstance(target, str):
        return target
    if isinstance(target, (artifacts.OpOverload, torch._ops.OpOverloadPacket)):
        # A packet's `__qualname__` may have the name of a class of pybind11.
        return str(target) if isinstance(target, artifacts.OpOverload) else f"torch.ops.{target}"
    if method := _OF_DTENSOR.match(getattr(target, "__name__", None) or ""):
        return method["name"]
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or str(target)
    module = getattr(target, "__module__", None) or ""
    if module in {"_operator", "builtins", ""}:
        return str(name)
    full = f"{module}.{name}"
    for private, public in _PUBLIC:
        if full.startswith(private):
            return public + full[len(private) :]
    return full


def qualified_operator(target: Any) -> str:
    """`aten::add` of an operator of a library; empty for any other callable."""
    packet = getattr(target, "overloadpacket", target)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return ""
    return str(getattr(packet, "_qualified_op_name", packet))


def dtype_name(dtype: torch.dtype) -> str:
    """The short name of a dtype, as `bf16`; torch's own name where there is none."""
    return _DTYPES.get(dtype, str(dtype).removeprefix("torch."))
