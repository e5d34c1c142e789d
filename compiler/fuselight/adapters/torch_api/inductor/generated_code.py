"""Reads in code that Inductor generated what one of its lines runs, and of which nodes of the captured graph.

Invariant: only the text of the file that runs is read. Python code names the nodes in the comment above a launch; a
kernel in C++ has no comment, and names operators in its own name.
"""

from __future__ import annotations

import linecache
import re
from dataclasses import dataclass
from types import FrameType

import torch

CALLS = ("call_function", "call_method", "call_module")
"""Kinds of nodes that run something."""
_MODULES = "torch._inductor.runtime.compile_tasks."
"""What the names of generated modules start with."""
_COMMENT = re.compile(r"\s*# (?:Topologically Sorted )?Source Nodes: \[(?P<nodes>[^\]]*)\]")
_KERNEL = re.compile(r"\s*(?P<name>cpp_fused_\w+)\(")
_ABOVE = 3
"""Lines between a comment and its launch: the stream that a kernel is launched on."""
_CHECKS = {
    "_assert_async": "_assert_async",
    "embedding": "embedding",
    "floordiv": "floor_divide",
    "floor_divide": "floor_divide",
    "gather": "gather",
    "getitem": "index",
    "index_select": "index_select",
    "remainder": "remainder",
    "setitem": "index_put",
    "take": "take",
}
"""Operators whose kernels refuse values, as an index out of bounds, by the last part of their names in the graph."""


@dataclass(frozen=True)
class RunningLine:
    """What a line of generated code runs."""

    nodes: tuple[str, ...]
    """Names of nodes of the captured graph, in their order: the last one is what runs. Empty if not known."""
    kernel: str
    """The name of a kernel in C++."""


def launched(frame: FrameType, line: int) -> RunningLine | None:
    """What a line of a frame runs; None if Inductor did not generate its code."""
    if not str(frame.f_globals.get("__name__", "")).startswith(_MODULES):
        return None
    path = frame.f_code.co_filename
    kernel = _KERNEL.match(linecache.getline(path, line))
    above = (
        _COMMENT.match(linecache.getline(path, number)) for number in range(line - 1, line - 1 - _ABOVE, -1)
    )
    comment = next(filter(None, above), None) if kernel is None else None
    nodes = () if comment is None else tuple(name for name in comment["nodes"].split(", ") if name)
    return RunningLine(nodes, "" if kernel is None else kernel["name"])


def check_of(node: torch.fx.Node) -> str:
    """What the name of a kernel contains that checks the values which a node gets; empty if none does."""
    name = str(getattr(node.target, "__name__", node.target))
    word = _CHECKS.get(name, "")
    if word in {"index", "index_put"}:
        indices: list[torch.fx.Node] = []
        torch.fx.map_arg(node.args[1], indices.append)
        return word if indices else ""
    return word
