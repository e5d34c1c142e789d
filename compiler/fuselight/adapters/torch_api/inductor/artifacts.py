# ruff: noqa: SLF001 - private names are this package's business
"""Reads the artifacts of a compile: cache entries, guards, symbols, results.

Invariant: each function takes one of torch's objects, returns plain values, and changes nothing.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from types import CodeType
from typing import Any

import torch
import torch._dynamo
import torch._dynamo.guards

OpOverload = torch._ops.OpOverload
"""The type of `torch.ops.aten.add.Tensor`."""


def entry_list(entries: Any) -> list[Any]:
    """Cache entries: a list in 2.13, a linked list before."""
    if isinstance(entries, (list, tuple)):
        return list(entries)
    out = []
    while entries is not None:
        out.append(entries)
        entries = entries.next
    return out


def cache_entries(code: CodeType) -> list[Any]:
    """The compiled versions of a function, the newest first; empty if there are none or this torch does not say."""
    read = getattr(torch._C._dynamo.eval_frame, "_debug_get_cache_entry_list", None)
    return [] if read is None else entry_list(read(code))


def is_deleted(manager: object) -> str | None:
    """Why a cache entry was invalidated, None for one that lives."""
    kind = getattr(torch._dynamo.guards, "DeletedGuardManagerWrapper", None)
    if kind is not None and isinstance(manager, kind):
        return str(
            getattr(manager, "invalidation_reason", "") or "an object that it was compiled for is gone"
        )
    return None


def is_empty_result(result: object) -> bool:
    """Whether `_compile` answered without a compiled frame."""
    if result is None:
        return True
    if hasattr(result, "guarded_code"):
        return result.guarded_code is None
    return False


def skip_reason(result: object) -> str | None:
    """Why a frame that raised nothing was not compiled, where this torch says."""
    reason = getattr(result, "skip_reason", None)
    return None if reason is None else str(reason)


def guards_of(output_graph: Any) -> list[Any]:
    """The guards of a compile, as torch's Guard objects."""
    return list(getattr(output_graph, "guards", None) or ())


def local_scope(output_graph: Any) -> dict[str, object] | None:
    """The frame's locals against which its guards were built, None where guards are not checked (export)."""
    if getattr(output_graph, "skip_guards_check", False) or getattr(output_graph, "export", False):
        return None
    scope: dict[str, object] | None = getattr(output_graph, "local_scope", None)
    return scope


def managers(manager: Any) -> Iterator[Any]:
    """Every node of a tree of guard managers. pybind makes a fresh wrapper at each call: never key them by `id`."""
    stack = [manager.root]
    while stack:
        node = stack.pop()
        if node is None:
            continue
        yield node
        below = list(node.get_child_managers())
        if hasattr(node, "get_key_value_managers"):
            below += [value for pair in node.get_key_value_managers().values() for value in pair]
        stack += reversed(below)


def dict_lengths(manager: Any, scope: Mapping[str, object]) -> dict[str, int]:
    """The number of keys of each dict whose node guards it without a leaf guard, by source; before the call runs."""
    dicts = [node.get_source() for node in managers(manager) if hasattr(node, "get_key_value_managers")]
    names = guard_scope(manager, scope)
    lengths: dict[str, int] = {}
    for source in filter(None, dicts):
        with contextlib.suppress(Exception):  # any property of the user's can raise anything
            lengths[source] = len(eval(source, *names))  # noqa: S307 - torch wrote it, and evaluates it in the same way
    return lengths


def is_relational(leaf: object) -> bool:
    """Whether a leaf guard keeps state between nodes, so that only the root may run it."""
    kind = getattr(torch._C._dynamo.guards, "RelationalGuard", None)
    return kind is not None and isinstance(leaf, kind)


def guard_scope(manager: Any, f_locals: Mapping[str, object]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Globals and locals in which a guard's expression can be evaluated."""
    sympy_names = dict(getattr(torch._dynamo.guards, "SYMPY_INTERP", {}))
    world = dict(manager.global_scope or {})
    return {**sympy_names, **world}, {**(manager.closure_vars or {}), "L": f_locals, "G": world.get("G", {})}


def source_name(source: Any) -> str:
    """A source's expression: a property in 2.11 and newer, a method before."""
    name = source.name
    return str(name() if callable(name) else name)


def called_modules(module: torch.fx.GraphModule) -> set[int]:
    """The `id` of each module whose call a graph contains."""
    keys = {key for node in module.graph.nodes for key in node.meta.get("nn_module_stack") or ()}
    numbers = (str(key).partition("@")[0] for key in keys)
    return {int(number) for number in numbers if number.isdecimal()}


def global_scope(output_graph: Any) -> dict[str, object]:
    """The globals of the compiled function."""
    return getattr(output_graph, "global_scope", None) or {}


def used_globals(output_graph: Any) -> list[object]:
    """The modules among the globals of the compiled function."""
    values = list(global_scope(output_graph).values())
    return [value for value in values if isinstance(value, torch.nn.Module)]


def local_name(guard: Any) -> str | None:
    """The name of the local variable that a guard by identity looks at, None for any other guard."""
    match = re.fullmatch(r"L\['(\w+)'\]", source_name(guard))
    return match[1] if match and guard.create_fn_name() == "ID_MATCH" else None


def symbol_facts(shape_env: Any, symbol: Any) -> tuple[str | None, str | None]:
    """Hint and range of a symbol, as text."""
    values = getattr(shape_env, "backed_var_to_val", None)
    if values is None:
        values = getattr(shape_env, "var_to_val", {})
    hint = values.get(symbol)
    bounds = getattr(shape_env, "var_to_range", {}).get(symbol)
    text = None if bounds is None else f"[{_bound(bounds.lower)}, {_bound(bounds.upper)}]"
    return (None if hint is None else str(hint)), text


def replacing_symbols(shape_env: Any, symbol: Any) -> frozenset[str]:
    """The names of the symbols in what a symbol was found to equal; none for one that equals no other."""
    equal = getattr(shape_env, "replacements", {}).get(symbol)
    return frozenset(map(str, getattr(equal, "free_symbols", ()))) - {str(symbol)}


def _bound(value: object) -> str:
    text = str(value)
    return {"int_oo": "inf", "oo": "inf", "-int_oo": "-inf", "-oo": "-inf"}.get(text, text)


def number_text(value: object) -> str:
    """A number of the symbolic engine as Python writes it: `0.1`, not `0.100000000000000`."""
    if getattr(value, "is_Float", False):
        return repr(float(value))  # type: ignore[arg-type]
    return str(value)


def is_symbol(value: object) -> bool:
    """Whether a size became a symbol, and not a number at once."""
    return bool(getattr(value, "is_Symbol", False))


def is_inference(guard: Any) -> bool:
    """Whether a guard is on an inference tensor."""
    value = guard.obj_weakref() if callable(guard.obj_weakref) else None
    return isinstance(value, torch.Tensor) and value.is_inference()


def subclass_metadata(value: Any) -> Any:
    """What the class of a tensor returns besides its inner tensors, which torch compares. Runs the class's code."""
    return value.__tensor_flatten__()[1]


def is_subclass(guard: Any) -> bool:
    """Whether a guard is on a tensor of a class that torch takes apart."""
    value = guard.obj_weakref() if callable(guard.obj_weakref) else None
    return isinstance(value, torch.Tensor) and hasattr(type(value), "__tensor_flatten__")


def dispatch_keys(tensor: torch.Tensor) -> set[str]:
    """The names of a tensor's dispatch keys under the modes that are on, as its guard sees them."""
    keys = torch._C._dispatch_keys(tensor) | torch._C._dispatch_tls_local_include_set()
    text = str(keys - torch._C._dispatch_tls_local_exclude_set())
    return set(text.partition("(")[2].rstrip(")").split(", "))


def global_state() -> dict[str, Any] | None:
    """The global state as torch's guard records it, None if this torch's guard does not expose it."""
    guard = torch._C._dynamo.guards.GlobalStateGuard()
    read = getattr(guard, "__getstate__", None)
    try:
        state = None if read is None else read()
        decoded = json.loads(state) if isinstance(state, str) else None
    except (TypeError, ValueError, RuntimeError):
        return None
    return decoded if isinstance(decoded, dict) else None
