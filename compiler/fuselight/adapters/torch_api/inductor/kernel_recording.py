"""Buffers of Inductor's generated code, recorded after the kernel that writes each, with the node that each stands for.

Invariant: torch's caches hold nothing of it: the code of the generated `call` is replaced while it is recorded.
Source: torch/_inductor/graph.py (`compile_to_module`), torch/_inductor/codegen/wrapper.py (names of buffers).
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import itertools
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any

import torch

from fuselight.adapters.torch_api.patching import wrapped
from fuselight.shared.import_hooks import AfterImport

_KERNEL = re.compile(r"^(cpp_|triton_|extern_kernels\.|torch\.ops\.|aten\.|.*\.run$)")
_BUFFER = re.compile(r"^buf\d+$")
_RECORDER = "_fuselight_recorder"
_LOWERING = "torch._inductor.graph"
_MAX_BYTES = 1 << 30
"""Of all buffers of one call."""


@contextlib.contextmanager
def without_graph_caches() -> Iterator[None]:
    """Inside, each graph is lowered, also one that a cache has. Compiled kernels are still taken from theirs."""
    inductor: Any = importlib.import_module("torch._inductor.config")
    functorch: Any = importlib.import_module("torch._functorch.config")
    with inductor.patch(fx_graph_cache=False), contextlib.ExitStack() as stack:
        if hasattr(functorch, "enable_autograd_cache"):
            stack.enter_context(functorch.patch(enable_autograd_cache=False))
        yield


@dataclass
class RecordedBuffer:
    """One buffer as the first kernel that writes it left it, and as the last one did."""

    name: str
    kernel: str
    value: torch.Tensor
    last: torch.Tensor | None = None
    """What later kernels have made of it, as those of a scatter into zeros; None if no other kernel writes it."""
    launch: int = 0
    """Which launch of a kernel wrote it first."""
    last_launch: int = 0
    """Which one wrote `last`; 0 if there is none."""


@dataclass
class LoweredGraph:
    """One graph of generated code."""

    graph: torch.fx.Graph
    """As Inductor lowered it."""
    nodes: Mapping[str, torch.fx.Node]
    """The node that each buffer stands for, as Inductor says."""
    origins: Mapping[str, tuple[torch.fx.Node, ...]] = field(default_factory=dict)
    """All nodes from which a buffer is computed, as Inductor says, the last one first."""
    inputs: dict[str, torch.Tensor] = field(default_factory=dict)
    buffers: dict[str, RecordedBuffer] = field(default_factory=dict)
    """In the order in which kernels wrote them."""
    launches: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The buffers that each launch of a kernel is given or returns."""


class KernelRecorder:
    """Keeps graphs that are lowered while it is active, and records their buffers on demand."""

    def __init__(self) -> None:
        self.graphs: list[LoweredGraph] = []
        """Those that have run while they were recorded."""
        self._known: list[tuple[Any, LoweredGraph]] = []
        self._room = self._launches = 0
        self._reused: dict[str, torch.Tensor] = {}
        """Buffers in the memory of another one, as it was before a kernel has written them."""

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Inside, each module that Inductor generates is kept.

        Inductor is not imported for it: this may be entered while torch's own import goes on.
        """
        with contextlib.ExitStack() as stack:

            def keep_modules() -> None:
                lowering = getattr(sys.modules[_LOWERING], "GraphLowering", None)
                if hasattr(lowering, "compile_to_module"):
                    stack.enter_context(wrapped(lowering, "compile_to_module", self._kept))

            if _LOWERING in sys.modules:
                keep_modules()
            else:
                finder = AfterImport(_LOWERING, keep_modules)
                sys.meta_path.insert(0, finder)
                stack.callback(finder.withdraw)
            yield

    def _kept(self, real: Any, lowering: Any) -> Any:
        module = real(lowering)
        nodes: dict[str, torch.fx.Node] = {}
        origins: dict[str, tuple[torch.fx.Node, ...]] = {}
        order = {node: at for at, node in enumerate(lowering.module.graph.nodes)}
        for name, buffer in getattr(lowering, "name_to_buffer", {}).items():
            node = buffer.get_origin_node() if hasattr(buffer, "get_origin_node") else None
            if isinstance(node, torch.fx.Node):
                nodes[str(name)] = node
            known = [node for node in getattr(buffer, "origins", None) or () if node in order]
            origins[str(name)] = tuple(sorted(known, key=order.__getitem__, reverse=True))
        self._known.append((module, LoweredGraph(lowering.module.graph, nodes, origins)))
        return module

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Inside, buffers are recorded while generated code runs: of each graph those of its last run."""
        self.graphs.clear()
        self._room = _MAX_BYTES
        with contextlib.ExitStack() as stack:
            for module, graph in self._known:
                stack.enter_context(self._recorded(module, graph))
            yield

    @contextlib.contextmanager
    def _recorded(self, module: Any, graph: LoweredGraph) -> Iterator[None]:
        function = _function_of(module)
        code = _recording_code(getattr(module, "__file__", "")) if function is not None else None
        if function is None or code is None:
            yield
            return
        kept = function.__code__
        function.__globals__[_RECORDER] = _Hooks(self, graph)
        function.__code__ = code
        try:
            yield
        finally:
            function.__code__ = kept
            del function.__globals__[_RECORDER]

    def begin(self, graph: LoweredGraph, values: Mapping[str, Any]) -> None:
        """A run of a graph begins, with these inputs by name."""
        graph.inputs = {
            name: self._copy(value)
            for name, value in values.items()
            if isinstance(value, torch.Tensor) and self._room >= 0
        }
        graph.buffers, graph.launches, self._reused = {}, {}, {}
        if graph not in self.graphs:
            self.graphs.append(graph)

    def reuse(self, values: Mapping[str, Any], name: str) -> None:
        """A buffer gets the memory of another one, whose value it has until a kernel writes it.

        None does if the value is read by the rest of the same kernel alone: the memory is then an input of it.
        """
        if self._room >= 0:
            self._reused[name] = self._copy(values[name])

    def after(
        self, graph: LoweredGraph, kernel: str, values: Mapping[str, Any], names: Sequence[str]
    ) -> None:
        """A kernel has run on what has these names."""
        self._launches += 1
        buffers = [
            name for name in names if _BUFFER.match(name) and isinstance(values.get(name), torch.Tensor)
        ]
        graph.launches[self._launches] = tuple(buffers)
        for name in buffers:
            value = values[name]
            if name in self._reused:
                if _is_same(self._reused[name], value):
                    continue
                self._room += value.numel() * value.element_size()
                del self._reused[name]
            known = graph.buffers.get(name)
            if known is None and self._room >= 0:
                graph.buffers[name] = RecordedBuffer(name, kernel, self._copy(value), launch=self._launches)
            elif known is not None and self._room >= 0:
                before = known.value if known.last is None else known.last
                if not _is_same(before, value):
                    known.last, known.last_launch = self._copy(value), self._launches

    def _copy(self, tensor: torch.Tensor) -> torch.Tensor:
        self._room -= tensor.numel() * tensor.element_size()
        return tensor.detach().clone()


@dataclass
class _Hooks:
    """What the recorded code calls."""

    recorder: KernelRecorder
    graph: LoweredGraph

    def begin(self, values: Mapping[str, Any]) -> None:
        self.recorder.begin(self.graph, dict(values))

    def after(self, kernel: str, values: Mapping[str, Any], names: Sequence[str]) -> None:
        self.recorder.after(self.graph, kernel, values, names)

    def reuse(self, values: Mapping[str, Any], name: str) -> None:
        self.recorder.reuse(values, name)


def _is_same(kept: torch.Tensor, value: torch.Tensor) -> bool:
    if kept.shape != value.shape or kept.dtype != value.dtype:
        return False
    return bool(((kept == value) | ((kept != kept) & (value != value))).all())  # noqa: PLR0124 - NaN


def _function_of(module: Any) -> types.FunctionType | None:
    call = getattr(module, "call", None)
    function = getattr(call, "__func__", call)
    return function if isinstance(function, types.FunctionType) else None


def _recording_code(path: str) -> types.CodeType | None:
    """The code of `call` in a generated file, with the hooks; None if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            tree = ast.parse(file.read())
    except (OSError, SyntaxError):
        return None
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "call"]
    if len(calls) != 1:
        return None
    (call,) = calls
    returned = {
        node.id
        for statement in ast.walk(call)
        if isinstance(statement, ast.Return)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name)
    }
    call.body = list(_with_hooks(call.body, {}, returned, first=True))
    module_code = compile(ast.fix_missing_locations(ast.Module([call], [])), path, "exec")
    return next(constant for constant in module_code.co_consts if isinstance(constant, types.CodeType))


def _with_hooks(
    body: Sequence[ast.stmt], of_kernels: dict[str, str], results: AbstractSet[str], *, first: bool
) -> Iterator[ast.stmt]:
    """The statements with a hook after each that makes a buffer; `of_kernels` gets names with the kernel they are of.

    `results`: names that the call returns, which a kernel has to have written.
    """
    for statement, following in itertools.zip_longest(body, body[1:]):
        for name in ("body", "orelse"):
            inner = getattr(statement, name, None)
            if isinstance(inner, list):
                setattr(statement, name, list(_with_hooks(inner, of_kernels, results, first=False)))
        yield statement
        reused = _reused(statement, following)
        if reused and reused not in results:
            yield from ast.parse(f"{_RECORDER}.reuse(locals(), {reused!r})").body
        is_unpacked = isinstance(statement, ast.Assign) and ast.unparse(statement.value) == "args"
        if first and is_unpacked:
            yield from ast.parse(f"{_RECORDER}.begin(locals())").body
        kernel = _kernel_of(statement, of_kernels)
        if kernel:
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            of_kernels.update({target.id: kernel for target in targets if isinstance(target, ast.Name)})
            names = sorted({node.id for node in ast.walk(statement) if isinstance(node, ast.Name)})
            yield from ast.parse(f"{_RECORDER}.after({kernel!r}, locals(), {names!r})").body


def _reused(statement: ast.stmt, following: ast.stmt | None) -> str:
    """The name that gets the memory of another one, as in `buf3 = buf1; del buf1`; empty if none does."""
    if not isinstance(statement, ast.Assign) or not isinstance(following, ast.Delete):
        return ""
    value = statement.value
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "reinterpret_tensor":
        value = value.args[0]
    name, gone = ast.unparse(statement.targets[0]), ast.unparse(following.targets[0])
    return name if isinstance(value, ast.Name) and value.id == gone and _BUFFER.match(name) else ""


def _kernel_of(statement: ast.stmt, of_kernels: Mapping[str, str]) -> str:
    """The kernel that a statement launches, or that has returned what it takes apart; empty if there is none."""
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name):
        return of_kernels.get(value.value.id, "")
    kernel = ast.unparse(value.func) if isinstance(value, ast.Call) else ""
    return kernel if _KERNEL.match(kernel) else ""
