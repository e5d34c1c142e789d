# ruff: noqa: SLF001 - private names are this package's business
"""Runs the wrapper that Inductor generates for a device on fake tensors, with kernels that do nothing.

Invariant: what the wrapper allocates, reuses and deletes happens in its own order; nothing is compiled or launched.
"""

from __future__ import annotations

import contextlib
import math
import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

import torch
import torch._inductor.compile_fx

from fuselight.adapters.torch_api.fake_numbers import assumed_numbers
from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.virtual_gpu import scheduler_nodes
from fuselight.adapters.virtual_gpu.codegen import Unloaded, generate, mode_options, text_of
from fuselight.shared.report import Device

_ROOT = re.compile(r"^[LG]\['[^']*'\]")
_PATH = re.compile(r"([A-Za-z_]\w*|\d+)|\['?([^'\]]+)'?\]")
"""The parts of a module's path: `.blocks.0`, `._modules['blocks']._modules['0']`, `.blocks[0]`."""
_REUSED = re.compile(r"^\s+(buf\d+) = (\w+); del \2\b.*# reuse", re.MULTILINE)
_ALLOCATED = re.compile(r"^\s+(buf\d+) = empty_strided_\w+\(\(([\d, ]*)\), \(([\d, ]*)\)", re.MULTILINE)
_ASSIGNED = re.compile(r"^\s+(buf\d+) = ")
_OTHER_DEVICE = re.compile(r"device\(type='(?:cuda|hip|xpu)'(?:, index=\d+)?\)")
_REPLACED = (
    (re.compile(r"^from torch\._C import .*get_raw_stream.*$", re.MULTILINE), ""),
    (re.compile(r"^(empty_strided_\w+|reinterpret_tensor|alloc_from_pool) = .*$", re.MULTILINE), ""),
    (re.compile(r"\bAsyncCompile\(\)"), "_Nothing()"),
    (re.compile(r"^async_compile\.wait\(globals\(\)\)$", re.MULTILINE), ""),
    (re.compile(r"\btorch\.(?:cuda|xpu)\._DeviceGuard\("), "_guard("),
    (re.compile(r"\btorch\.(?:cuda|xpu)\.set_device\("), "_nothing("),
    (_OTHER_DEVICE, "device(type='cpu')"),
)
"""Of the text: what needs the device, or would compile."""


class BufferOrigin(NamedTuple):
    """Where a buffer of generated code comes from: of a fused one, its last operator."""

    trace: str
    """The traceback of the user's line."""
    module: str
    """The qualified name of the module, as `blocks.0.mlp`; empty for the compiled object itself."""


class ReplayedGraph(NamedTuple):
    """What is known of one graph without running it: tracebacks of the user's lines."""

    computed: tuple[str, ...]
    """Of what a forward graph computes; empty for a backward one."""
    recomputed: tuple[str, ...]
    """Of operators of the forward that a backward graph computes again."""
    reused: tuple[str, ...]
    """Of buffers that are written into the memory of another buffer."""
    donated: tuple[str, ...]
    """Of buffers that are written into the memory of an input of the graph."""
    padded: tuple[str, ...] = ()
    """Of buffers with more memory than their elements need."""


class PassedValues(NamedTuple):
    """What a captured graph gives to the code after it."""

    frame: int | None
    """Dynamo's number of the frame, which a recompilation has again; None where that is not known."""
    traces: tuple[str, ...]
    """Tracebacks of the user's lines that made the values."""


class ReplayBackend:
    """A Dynamo backend whose code for `device` allocates as Inductor's does, and computes nothing."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.graphs: list[ReplayedGraph] = []
        """Every graph that was lowered, in order."""
        self.passed: list[PassedValues] = []
        """Of every captured graph, in order."""
        self._buffers: dict[CodeType, dict[int, BufferOrigin]] = {}
        """By the code of a wrapper, where each buffer comes from, by line."""

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        """Take a captured graph from Dynamo. Raises what torch raises."""
        options = dict(asked.get("options") or {})
        options.pop("backend", None)
        options = {**mode_options(options.pop("mode", None)), **options}
        self.passed.append(_passed(gm))
        compile_fx = torch._inductor.compile_fx
        # What checks the alignment of inputs reads addresses, which fake tensors do not have.
        with patched(compile_fx, "get_input_idxs_to_check", lambda *_args: ()):
            known = _KnownNumbers(gm)
            return known.filled(generate(gm, inputs, self.device, None, options, write=self._loaded))

    def origin_of_buffer(self) -> BufferOrigin | None:
        """Where the buffer comes from that a wrapper makes now; None outside of wrappers."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            lines = self._buffers.get(frame.f_code)
            if lines is not None:
                return lines.get(frame.f_lineno)
            frame = frame.f_back
        return None

    def _loaded(self, _real: Callable[..., Any], graph: Any) -> tuple[Any, str]:
        text = text_of(graph)
        origins = _buffer_origins(graph)
        self.graphs.append(_lowered(graph, text, origins))
        return _ReplayedModule(self, graph, text, origins), text

    def accept_code(self, code: CodeType, lines: Mapping[int, BufferOrigin]) -> None:
        """Note where a wrapper and its parts make buffers."""
        self._buffers[code] = dict(lines)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self.accept_code(constant, lines)


class _KnownNumbers:
    """Results of a captured graph that are one number and depend on no input: the code after it may branch on them."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        self._graph = torch.fx.Interpreter(gm, garbage_collect_values=False)
        depends: set[torch.fx.Node] = set()
        for node in gm.graph.nodes:
            is_call = node.op in {"call_function", "call_method"}
            depends |= {node} if not is_call or depends.intersection(node.all_input_nodes) else set()
        self._nodes = [node for node in gm.graph.nodes if node not in depends]
        results = gm.graph.output_node().args[0]
        self._results = [
            (index, node)
            for index, node in enumerate(results if isinstance(results, (list, tuple)) else ())
            if isinstance(node, torch.fx.Node)
            and node in self._nodes
            and getattr(node.meta.get("example_value"), "numel", lambda: 0)() == 1
        ]

    def filled(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The compiled graph, with the values of these results where they are known."""
        return self._call(compiled) if self._results else compiled

    def _call(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            results = list(compiled(*args))
            self._graph.env.clear()
            with assumed_numbers(lambda: None):  # eager mode names the lines
                for node in self._nodes:
                    self._graph.env[node] = self._graph.run_node(node)
            for index, node in self._results:
                results[index] = self._graph.env[node]
            return tuple(results)

        return call


class _ReplayedModule(Unloaded):
    """In the place of the module of generated code: its wrapper, with kernels that do nothing."""

    def __init__(
        self, backend: ReplayBackend, graph: Any, text: str, origins: Mapping[str, BufferOrigin]
    ) -> None:
        super().__init__(text)
        for pattern, replacement in _REPLACED:
            text = pattern.sub(replacement, text)
        names: dict[str, Any] = {"__name__": "replayed", "_Nothing": _Nothing, "_guard": _guard}
        names.update({"_nothing": _nothing, "get_raw_stream": lambda _index: 0})
        names.update({f"empty_strided_{device}": _empty for device in ("cpu", "cuda", "xpu", "cpu_pinned")})
        names.update({"reinterpret_tensor": _reinterpreted, **graph.constants})
        compiled = compile(text, "<replayed wrapper>", "exec")
        lines = {
            number: origins[match[1]]
            for number, line in enumerate(text.splitlines(), 1)
            if (match := _ASSIGNED.match(line)) is not None and match[1] in origins
        }
        backend.accept_code(compiled, lines)
        exec(compiled, names)  # noqa: S102 - Inductor's text, which torch.compile executes as well
        names.update({"assert_size_stride": _nothing, "assert_alignment": _nothing})
        self.call = names["call"]
        self.runner = names.get("runner", self)


class _Nothing:
    """A kernel, and what compiles kernels: every call gives another one."""

    def __call__(self, *_args: Any, **_named: Any) -> _Nothing:
        return _Nothing()

    def __getattr__(self, _name: str) -> _Nothing:
        return _Nothing()


def _nothing(*_args: Any, **_named: Any) -> None:
    return None


def _guard(_index: int) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _empty(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype)


def _reinterpreted(
    tensor: torch.Tensor, size: Sequence[int], stride: Sequence[int], offset: int = 0
) -> torch.Tensor:
    return torch.as_strided(tensor, size, stride, int(tensor.storage_offset()) + offset)


def _buffer_origins(graph: Any) -> dict[str, BufferOrigin]:
    """Where each buffer comes from."""
    origins = {}
    for buffer in graph.buffers:
        nodes = list(_nodes_of(buffer))
        if nodes:
            node = nodes[-1]
            origins[buffer.get_name()] = BufferOrigin(str(node.meta["stack_trace"]), module_name(node))
    return origins


def _lowered(graph: Any, text: str, origins: Mapping[str, BufferOrigin]) -> ReplayedGraph:
    is_backward = bool(getattr(graph, "is_backward", False))
    computed = [
        node
        for node in graph.graph.nodes
        if node.op == "call_function" and node.meta.get("stack_trace") and not _is_view(node)
    ]
    again = [node for node in computed if is_backward and _is_of_forward(node)]
    traces: dict[bool, list[str]] = {True: [], False: []}
    for buffer, other in _REUSED.findall(text):
        if buffer in origins:
            traces[other.startswith("buf")].append(origins[buffer].trace)
    return ReplayedGraph(
        tuple(str(node.meta["stack_trace"]) for node in computed if not is_backward),
        tuple(str(node.meta["stack_trace"]) for node in again),
        tuple(traces[True]),
        tuple(traces[False]) if is_backward else (),
        tuple(origins[name].trace for name in padded_buffers(text) if name in origins),
    )


def padded_buffers(text: str) -> Iterator[str]:
    """The buffers of a wrapper that have more memory than their elements need; none where a size is a symbol."""
    for name, sizes, strides in _ALLOCATED.findall(text):
        shape, steps = (
            [int(number) for number in part.split(",") if number.strip()] for part in (sizes, strides)
        )
        if all(shape) and 1 + sum(
            (size - 1) * step for size, step in zip(shape, steps, strict=False)
        ) > math.prod(shape):
            yield name


def _passed(gm: torch.fx.GraphModule) -> PassedValues:
    compile_id = torch._guards.CompileContext.current_compile_id()
    outputs = gm.graph.output_node().all_input_nodes
    traces = tuple(str(node.meta["stack_trace"]) for node in outputs if node.meta.get("stack_trace"))
    return PassedValues(getattr(compile_id, "frame_id", None), traces)


def _is_of_forward(node: torch.fx.Node) -> bool:
    """Whether a node of a backward graph is an operator of the forward, by what the partitioner has noted of it."""
    tag = node.meta.get("partitioner_tag")
    if tag is not None:
        return str(tag) == "is_forward"
    return "nn_module_stack" in node.meta and "fwd_nn_module_stack" not in node.meta


def _is_view(node: torch.fx.Node) -> bool:
    """Whether a node makes no memory: a view, or the part of a result."""
    return getattr(node.target, "is_view", False) or node.target is operator.getitem


def module_name(node: torch.fx.Node) -> str:
    """The qualified name of the innermost module of a node, of the forward if it is one of the backward."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    path = next(reversed(stack.values()), ("",))[0] if stack else ""
    parts = [part or index for part, index in _PATH.findall(_ROOT.sub("", str(path)))]
    return ".".join(part for part in parts if part not in {"_modules", "_orig_mod"})


def _nodes_of(buffer: Any) -> Iterator[torch.fx.Node]:
    own = getattr(buffer, "origin_node", None)
    nodes = [*scheduler_nodes.origins([buffer]), *([own] if own is not None else [])]
    return (node for node in nodes if node.meta.get("stack_trace"))
