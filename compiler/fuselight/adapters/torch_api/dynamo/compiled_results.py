# ruff: noqa: SLF001 - private names are this package's business
"""Makes the results of a graph that runs as captured look like those of a region that AOTAutograd compiled.

After a graph break, the next graph's sizes and guards depend on them: AOTAutograd marks the sizes of its results that
it left dynamic, and hides from autograd that a result is a view of an intermediate. Since torch 2.14 it also marks
the inputs that it saves for backward, which is not reproduced here: only the partitioned graph knows them.
Source: torch/_functorch/_aot_autograd/collect_metadata_analysis.py and runtime_wrappers.py.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree


def with_compiled_results(gm: torch.fx.GraphModule) -> Callable[..., Any]:
    """Return `gm.forward` whose results have the marks and the views that the compiled graph's results have."""
    forward: Callable[..., Any] = gm.forward

    def run(*args: Any) -> Any:
        new_results = forward(*args)
        if not isinstance(new_results, (tuple, list)):
            return new_results
        results = without_views(new_results, args)
        for result, node in zip(results, _result_nodes(gm), strict=False):
            dims = _dynamic_dims(getattr(node, "meta", {}).get("example_value"))
            if dims and isinstance(result, torch.Tensor):
                _mark_dynamic(result, dims)
        return type(new_results)(results)

    return run


def _result_nodes(gm: torch.fx.GraphModule) -> Sequence[Any]:
    output = next(node for node in reversed(gm.graph.nodes) if node.op == "output")
    results = output.args[0]
    return results if isinstance(results, (tuple, list)) else ()


def _dynamic_dims(value: Any) -> set[int]:
    """Return the dimensions of a traced tensor that are still symbols."""
    if not isinstance(value, torch.Tensor):
        return set()
    return {
        dim
        for dim, size in enumerate(value.shape)
        if isinstance(size, torch.SymInt) and not size.node.expr.is_number
    }


def _mark_dynamic(tensor: torch.Tensor, dims: set[int]) -> None:
    wrappers: Any = importlib.import_module("torch._functorch._aot_autograd.runtime_wrappers")
    mark = getattr(wrappers, "mark_dynamo_propagated_dynamic_indices", None)
    if mark is not None:
        mark(tensor, dims)
        return
    weak: Any = tensor  # torch 2.11 uses the attribute of maybe_mark_dynamic
    weak._dynamo_weak_dynamic_indices = getattr(weak, "_dynamo_weak_dynamic_indices", set()) | dims


def without_views(results: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    """Replace each view of an intermediate by the same memory as a tensor of its own, where compiled code does so.

    AOTAutograd hides some of them from autograd, and Inductor's buffers are views of nothing: code of both that runs
    in eager mode still returns them.
    """
    given = {_storage(leaf) for leaf in pytree.tree_leaves(args) if type(leaf) in _PLAIN}
    aliases = Counter(
        _storage(result) for result in results if type(result) in _PLAIN and not _is_of_many(result)
    )
    return [
        torch.ops.aten._unsafe_view(result, result.shape) if _is_hidden(result, given, aliases) else result
        for result in results
    ]


_PLAIN = (torch.Tensor, torch.nn.Parameter, FakeTensor)


def _is_hidden(value: Any, given: set[int], aliases: Counter[int]) -> bool:
    if type(value) not in _PLAIN or value._base is None or _storage(value) in given:
        return False
    # Results that share an intermediate stay views of it where autograd has to know.
    alone = aliases[_storage(value)] <= 1
    return alone or not (value.requires_grad and value._base.requires_grad)


def _is_of_many(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one of several views that one operator made, as `chunk` does."""
    autograd: Any = torch._C._autograd
    return bool(
        tensor._base is not None
        and autograd._get_creation_meta(tensor) == autograd.CreationMeta.MULTI_OUTPUT_NODE
    )


def _storage(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # sparse and opaque tensors have no storage
        return id(tensor)
