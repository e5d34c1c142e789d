# ruff: noqa: SLF001 - private names are this package's business
"""Runs the wrapper that Inductor generates for a device on fake tensors, with kernels that do nothing.

Invariant: what the wrapper allocates, reuses and deletes happens in its own order; nothing is compiled or launched.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import torch
import torch._inductor.compile_fx

from fuselight.adapters.torch_api.patching import patched
from fuselight.adapters.virtual_gpu import scheduler_nodes
from fuselight.adapters.virtual_gpu.codegen import generate, mode_options
from fuselight.shared.report import Device

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


class ReplayBackend:
    """A Dynamo backend whose code for `device` allocates as Inductor's does, and computes nothing."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self._traces: dict[CodeType, dict[int, str]] = {}
        """By the code of a wrapper, the traceback of the user's line of each buffer, by line."""

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        """Take a captured graph from Dynamo. Raises what torch raises."""
        options = dict(asked.get("options") or {})
        options.pop("backend", None)
        options = {**mode_options(options.pop("mode", None)), **options}
        compile_fx = torch._inductor.compile_fx
        unobserved: Any = _Unobserved()
        # What checks the alignment of inputs reads addresses, which fake tensors do not have.
        with patched(compile_fx, "get_input_idxs_to_check", lambda *_args: ()):
            return generate(gm, inputs, self.device, unobserved, options, write=self._loaded)

    def trace_of_buffer(self) -> str | None:
        """The traceback of the user's line of the buffer that a wrapper makes now; None outside of wrappers."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            lines = self._traces.get(frame.f_code)
            if lines is not None:
                return lines.get(frame.f_lineno)
            frame = frame.f_back
        return None

    def _loaded(self, _real: Callable[..., Any], graph: Any) -> tuple[Any, str]:
        code, _ = graph.codegen()
        text = str(getattr(code, "value", code))
        graph.cache_key, graph.cache_path, graph.cache_linemap = "replayed", __file__, []
        return _ReplayedModule(self, graph, text, _buffer_traces(graph)), text

    def accept_code(self, code: CodeType, lines: Mapping[int, str]) -> None:
        """Note where a wrapper and its parts make buffers."""
        self._traces[code] = dict(lines)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self.accept_code(constant, lines)


class _ReplayedModule:
    """In the place of the module of generated code."""

    __file__ = __file__
    key = "replayed"

    def __init__(self, backend: ReplayBackend, graph: Any, text: str, traces: Mapping[str, str]) -> None:
        self.code = text
        for pattern, replacement in _REPLACED:
            text = pattern.sub(replacement, text)
        names: dict[str, Any] = {"__name__": "replayed", "_Nothing": _Nothing, "_guard": _guard}
        names.update({"_nothing": _nothing, "get_raw_stream": lambda _index: 0})
        names.update({f"empty_strided_{device}": _empty for device in ("cpu", "cuda", "xpu", "cpu_pinned")})
        names.update({"reinterpret_tensor": _reinterpreted, **graph.constants})
        compiled = compile(text, "<replayed wrapper>", "exec")
        lines = {
            number: traces[match[1]]
            for number, line in enumerate(text.splitlines(), 1)
            if (match := _ASSIGNED.match(line)) is not None and match[1] in traces
        }
        backend.accept_code(compiled, lines)
        exec(compiled, names)  # noqa: S102 - Inductor's text, which torch.compile executes as well
        names.update({"assert_size_stride": _nothing, "assert_alignment": _nothing})
        self.call = names["call"]
        self.runner = names.get("runner", self)
        self.partitions: list[Any] = []

    def recursively_apply_fns(self, _functions: Any) -> None:
        """Wrap no part: CUDA graphs are not recorded."""


class _Nothing:
    """A kernel, and what compiles kernels: every call gives another one."""

    def __call__(self, *_args: Any, **_named: Any) -> _Nothing:
        return _Nothing()

    def __getattr__(self, _name: str) -> _Nothing:
        return _Nothing()


class _Unobserved:
    """Takes the events of a graph, and keeps none."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        return _nothing


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


def _buffer_traces(graph: Any) -> dict[str, str]:
    """The traceback of the user's line of each buffer: of a fused one, that of its last operator."""
    traces = {}
    for buffer in graph.buffers:
        nodes = list(_nodes_of(buffer))
        if nodes:
            traces[buffer.get_name()] = str(nodes[-1].meta["stack_trace"])
    return traces


def _nodes_of(buffer: Any) -> Iterator[torch.fx.Node]:
    own = getattr(buffer, "origin_node", None)
    nodes = [*scheduler_nodes.origins([buffer]), *([own] if own is not None else [])]
    return (node for node in nodes if node.meta.get("stack_trace"))
