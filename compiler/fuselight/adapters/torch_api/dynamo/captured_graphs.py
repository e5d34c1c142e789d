# ruff: noqa: SLF001 - private names are this package's business
"""Reads and rewrites graphs that Dynamo captured, on fake tensors.

Invariant: nothing here runs an operator on data, and the fake tensors that Dynamo keeps are not changed.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.amp.autocast_mode
import torch.fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor

from fuselight.adapters.torch_api.inductor import artifacts

_FILE = re.compile(r'^\s*File "(.+)", line \d+', re.MULTILINE)


def placeholders(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The inputs of a graph, by position."""
    return [node for node in gm.graph.nodes if node.op == "placeholder"]


def example_value(node: torch.fx.Node) -> Any:
    """The fake value of a node from Dynamo's trace; None if it has none."""
    return node.meta.get("example_value")


def source_files(gm: torch.fx.GraphModule) -> list[str]:
    """The files with the code that a graph is captured from."""
    traces = (str(node.meta.get("stack_trace") or "") for node in gm.graph.nodes)
    return list(dict.fromkeys(path for trace in traces for path in _FILE.findall(trace)))


def is_of_module(node: torch.fx.Node, example: object) -> bool:
    """Whether an input is a parameter or buffer of a module, not an argument of the call."""
    if isinstance(example, torch.nn.Parameter):
        return True
    source = getattr(node, "_dynamo_source", None) or getattr(node.meta.get("grapharg"), "source", None)
    guard_source = getattr(source, "guard_source", None)
    if callable(guard_source):  # a method before 2.11
        guard_source = guard_source()
    asks = getattr(guard_source, "is_unspecialized_nn_module", None)
    is_module = bool(asks()) if callable(asks) else False
    asks = getattr(guard_source, "is_specialized_nn_module", None)
    return is_module or (bool(asks()) if callable(asks) else False)


def output_values(gm: torch.fx.GraphModule, formats: Mapping[str, torch.memory_format]) -> list[Any] | None:
    """Fake results of a graph if the inputs that `formats` names were stored in these formats; the others as captured.

    None if the graph cannot run so, for example because it takes a `view` of a tensor that would no longer be
    contiguous, or if that is unknown.
    """
    fakes = [example_value(node) for node in placeholders(gm)]
    mode = detect_fake_mode([tensor for tensor in fakes if isinstance(tensor, FakeTensor)])
    if mode is None:
        return None
    try:
        with torch.no_grad(), mode, _fresh_symbols_ignored(mode):
            values = [
                _restored(fake, formats.get(node.name)) if isinstance(fake, torch.Tensor) else fake
                for node, fake in zip(placeholders(gm), fakes, strict=True)
            ]
            outputs = torch.fx.Interpreter(gm).run(*values)
    except Exception:  # noqa: BLE001 - a user's operator may raise anything: then it is not known
        return None
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _restored(fake: torch.Tensor, memory_format: torch.memory_format | None) -> torch.Tensor:
    """A fake tensor of its own with the sizes of `fake`, in a format or with the same strides."""
    own = torch.empty_strided(fake.size(), fake.stride(), dtype=fake.dtype, device=fake.device)
    return own if memory_format is None else own.contiguous(memory_format=memory_format)


@contextlib.contextmanager
def _fresh_symbols_ignored(mode: Any) -> Iterator[None]:
    """Inside, sizes that depend on data may get new symbols: nothing of this trace is kept."""
    ignore = getattr(getattr(mode, "shape_env", None), "ignore_fresh_unbacked_symbols", None)
    with ignore() if ignore is not None else contextlib.nullcontext():
        yield


def device_of(gm: torch.fx.GraphModule) -> torch.device:
    """The device that a graph computes on: a GPU if any tensor is on one."""
    values = [example_value(node) for node in gm.graph.nodes]
    devices = [
        value.device for value in values if isinstance(value, torch.Tensor) and value.device.type != "meta"
    ]
    return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))


def has_autocast(device: str) -> bool:
    """Whether the program has set autocast for this device."""
    return bool(torch.is_autocast_enabled(device))


def autocast_calls() -> tuple[Any, Any] | None:
    """The functions that a captured `with torch.autocast(...)` calls, to enter and to leave it."""
    module: Any = torch.amp.autocast_mode
    enter, leave = getattr(module, "_enter_autocast", None), getattr(module, "_exit_autocast", None)
    return None if enter is None or leave is None else (enter, leave)


def shares_storage(tensor: Any) -> bool:
    """Whether a tensor is a part of a larger storage, or other processes see it: its data must stay where it is."""
    if tensor._is_view() or tensor.is_inference():
        return True
    own = tensor.numel() * tensor.element_size()
    return bool(
        tensor.untyped_storage().nbytes() != own or (tensor.device.type == "cpu" and tensor.is_shared())
    )


def output_node(gm: torch.fx.GraphModule) -> torch.fx.Node:
    """The node that returns the results."""
    node: torch.fx.Node = gm.graph.find_nodes(op="output")[0]
    return node


def outputs_of(gm: torch.fx.GraphModule) -> Sequence[Any]:
    """The results of a graph, as nodes or constants."""
    output = output_node(gm).args[0]
    return output if isinstance(output, (list, tuple)) else (output,)


def autocast_state() -> str:
    """The autocast that the program has set, as `cuda torch.float16`; empty if there is none."""
    lines = [
        f"{device} {torch.get_autocast_dtype(device)}"
        for device in ("cpu", "cuda")
        if torch.is_autocast_enabled(device)
    ]
    return ", ".join(lines)


def expression_of(value: Any) -> tuple[str, list[tuple[str, str]]]:
    """A symbolic number as text, and its symbols with their ranges, in the order of the text."""
    node = value.node
    expression = node.expr
    known = sorted(getattr(expression, "free_symbols", ()), key=str)
    text = str(expression)
    symbols = [(str(result), artifacts.symbol_facts(node.shape_env, result)[1] or "") for result in known]
    return text, sorted(symbols, key=lambda symbol: text.find(symbol[0]))


def size_of(size: Any) -> int:
    """A size as a number, for symbolic ones that of the current inputs, without a guard; -1 if it depends on data."""
    if not isinstance(size, torch.SymInt):
        return int(size)
    return int(size.node.hint) if size.node.has_hint() else -1


def is_not_one(size: Any) -> bool:
    """Whether a dimension has more elements than one, so that its stride counts."""
    return size_of(size) != 1
