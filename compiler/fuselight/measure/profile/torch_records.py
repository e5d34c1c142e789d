"""Names of the records that torch writes into a profile.

Invariant: names and patterns only; tests/worker/measure/test_profiling.py checks them against the installed torch.
"""

from __future__ import annotations

import re

CALL = "fuselight call"
"""Our record around each profiled call."""
LINE = "fuselight line "
"""Our record around an operator, with the position of its stack."""

CACHE_LOOKUP = "TorchDynamo Cache Lookup"
_REGION = re.compile(r"Torch-Compiled Region: (?P<id>\S+)")
_GRAPH = re.compile(r"## Call CompiledFxGraph (?P<key>.*) ##")
_OPERATOR = re.compile(r"(?P<space>[A-Za-z_]\w*)::(?P<name>\w+)(?:\.\w+)?")
_NO_OPERATORS = frozenset({"autograd", "profiler", "torch"})
"""Namespaces of records that are not operators, such as the engine's and `record_function`."""
_NUMBERED = re.compile(r"graph_\d+_")
GENERATED = re.compile(r"(?:graph_\d+_)?(?:triton_|cpp_)\w+")
"""Inductor's names for its own kernels."""
EVALUATES = "autograd::engine::evaluate_function: "
_COMPILED_NODE = "CompiledFunction"
_WRAPPERS = frozenset({"Pregraph bytecode", "AOTDispatcher Runtime Wrapper Prologue"})
WAITS = frozenset(
    {
        "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cuStreamSynchronize",
        "cuCtxSynchronize", "cuEventSynchronize", "hipDeviceSynchronize", "hipStreamSynchronize",
        "hipEventSynchronize",
    }
)  # fmt: skip
REPLAYS = frozenset({"cudaGraphLaunch", "cuGraphLaunch", "hipGraphLaunch"})
COPIES = frozenset({"aten::_foreach_copy_", "aten::copy_"})
"""Operators that copy inputs to the buffers of a CUDA graph."""
READS = frozenset({"aten::item", "aten::_local_scalar_dense"})
"""Operators that read a value from the device and wait for it."""
_NO_WORK = frozenset(
    f"aten::{name}"
    for name in (
        "_conj", "_neg_view", "_reshape_alias", "_unsafe_view", "_version", "alias", "as_strided", "as_strided_",
        "chunk", "detach", "detach_", "diagonal", "dropout", "empty", "empty_like", "empty_strided", "expand",
        "expand_as", "feature_dropout", "flatten", "is_nonzero", "item", "_local_scalar_dense", "lift_fresh",
        "movedim", "narrow", "new_empty", "new_empty_strided", "numpy_T", "permute", "ravel", "real", "reshape",
        "reshape_as", "resize_", "resolve_conj", "resolve_neg", "select", "set_", "slice", "split",
        "split_with_sizes", "squeeze", "squeeze_", "swapaxes", "swapdims", "t", "t_", "to", "transpose",
        "transpose_", "type_as", "unbind", "unflatten", "unfold", "unsafe_chunk", "unsafe_split", "unsqueeze",
        "unsqueeze_", "view", "view_as", "view_as_complex", "view_as_real", "contiguous", "result_type",
    )
)  # fmt: skip
"""Operators that touch no element themselves: those that may (`reshape`, `to`) call another operator for it."""


def region(name: str) -> str | None:
    """The compile id of a compiled region, as `0/0`; None for any other record."""
    match = _REGION.fullmatch(name)
    return None if match is None else match["id"]


def graph_key(name: str) -> str | None:
    """The key of the called compiled graph; None for any other record."""
    match = _GRAPH.fullmatch(name)
    return None if match is None else match["key"]


def is_operator(name: str) -> bool:
    """Whether a record is an operator's, such as `aten::addmm` or `mkldnn::_linear_pointwise`."""
    match = _OPERATOR.fullmatch(name)
    return match is not None and match["space"] not in _NO_OPERATORS


def short_name(name: str) -> str:
    """`addmm` of `aten::addmm`."""
    match = _OPERATOR.fullmatch(name)
    return name if match is None else match["name"]


def computes(name: str) -> bool:
    """Whether an operator does more than create a view or allocate a tensor."""
    return name not in _NO_WORK


def kernel_name(record: str) -> str:
    """The kernel name in a C++ kernel's record, which has its graph's number as prefix: `cpp_fused_add_0`."""
    return _NUMBERED.sub("", record, count=1) if _NUMBERED.match(record) else record


def is_wrapper(name: str) -> bool:
    """Whether a record belongs to the code around a compiled graph: Dynamo, AOTAutograd, or its autograd node."""
    return (
        name in _WRAPPERS
        or name.startswith(_COMPILED_NODE)
        or name.removeprefix(EVALUATES).startswith(_COMPILED_NODE)
    )


def copies_over_bus(name: str) -> bool:
    """Whether a copy is between host and device."""
    return "HtoD" in name or "DtoH" in name
