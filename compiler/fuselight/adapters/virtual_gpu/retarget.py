# ruff: noqa: SLF001 - private names are this package's business
"""Moves a joint graph to another device by tracing it again there, so that code sees the new device.

AOTAutograd runs on the CPU, for autograd cannot run over fake CUDA tensors where there is no CUDA; it is given no
decompositions. They are applied here, below autograd, on fake CUDA tensors. Invariant: inputs and outputs keep their
names, order and metadata; a new node has the metadata of the node that it was made of; no real tensor is moved.

With dynamic sizes Dynamo passes a float as a tensor of float64 on the CPU, and torch turns what is computed of it into
operators on that tensor, in a pass over what AOTAutograd has decomposed. `numbers_later` has it wait: it runs once for
each graph that AOTAutograd asked it for, and on no other.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch._dispatch.python
import torch._guards
import torch.fx
import torch.fx.traceback
from torch.fx.experimental import proxy_tensor
from torch.utils import _pytree as pytree
from torch.utils._sympy.symbol import SymT, symbol_is_type

from fuselight.adapters.torch_api.patching import patched

_ITEM = torch.ops.aten._local_scalar_dense.default
CALLERS = (
    "torch._functorch._aot_autograd.graph_compile",
    "torch._functorch._aot_autograd.jit_compile_runtime_wrappers",
)
"""Where AOTAutograd looks the pass up: that of torch 2.9 and newer, and that of older ones."""
_TENSORIFY = "tensorify_python_scalars"
CUDA = torch.device("cuda", 0)
_INLINED = 8
"""Elements of a held tensor that Inductor writes into the kernel (torch/_inductor/graph.py, can_inline_constant)."""
_OWN = frozenset({"val", "tensor_meta", "example_value", "eager_input_vals"})
"""Metadata that describes the result of a node on the old device."""
Table = Mapping[Any, Callable[..., Any]]


@contextlib.contextmanager
def numbers_later() -> Iterator[Callable[[torch.fx.GraphModule], None]]:
    """Defer the pass that AOTAutograd requests; the yielded function runs it on a graph that requested it."""
    owner, real = _caller()
    asked: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = []

    def ask(gm: torch.fx.GraphModule, *args: Any) -> None:
        asked.append((gm, args))

    def run(gm: torch.fx.GraphModule) -> None:
        for index, (of, args) in enumerate(asked):
            if of is gm:
                del asked[index]
                real(gm, *args)
                return

    with contextlib.nullcontext() if owner is None else patched(owner, _TENSORIFY, ask):
        yield run


def _caller() -> tuple[Any, Any]:
    for name in CALLERS:
        with contextlib.suppress(ImportError):
            module = importlib.import_module(name)
            if hasattr(module, _TENSORIFY):
                return module, getattr(module, _TENSORIFY)
    return None, None


def is_item_of_float(node: torch.fx.Node) -> bool:
    """Whether a node takes a float of the program's out of the tensor that Dynamo passes it as."""
    value = node.meta.get("val")
    if node.target is not _ITEM or not isinstance(value, torch.SymFloat):
        return False
    symbols = value.node.expr.free_symbols
    return bool(symbols) and all(symbol_is_type(symbol, SymT.FLOAT) for symbol in symbols)


def passed_floats(gm: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """The inputs of a graph that are floats of the program's: on every device they stay on the CPU."""
    return {
        node.args[0]
        for node in gm.graph.find_nodes(op="call_function", target=_ITEM)
        if is_item_of_float(node)
        and isinstance(node.args[0], torch.fx.Node)
        and node.args[0].op == "placeholder"
    }


def retarget(gm: torch.fx.GraphModule, decompositions: Table) -> None:
    """Put an ATen graph of fake CPU tensors onto `cuda:0` and decompose its operators there, in place."""
    placeholders = list(gm.graph.find_nodes(op="placeholder"))
    values = [node.meta.get("val") for node in placeholders]
    fake = torch._guards.detect_fake_mode([value for value in values if isinstance(value, torch.Tensor)])
    if fake is None:  # no tensor goes in: the mode is that of the capture
        fake = torch._guards.detect_fake_mode()
    for node in gm.graph.nodes:
        if node.op not in {"placeholder", "output"}:
            _name_device(node)
    with contextlib.ExitStack() as stack:
        for context in (
            fake or contextlib.nullcontext(),
            torch.no_grad(),
            torch._C._DisableAutocast(),
            torch._dispatch.python.enable_python_dispatcher(),
            torch.fx.traceback.preserve_node_meta(),
        ):
            stack.enter_context(context)
        floats = passed_floats(gm)
        moved = [
            value if node in floats else on_device(value, CUDA, fake)
            for node, value in zip(placeholders, values, strict=True)
        ]
        traced = proxy_tensor.make_fx(
            _TracedAgain(gm, fake, decompositions).run,
            decomposition_table=decompositions,
            _allow_non_fake_inputs=True,
        )(*moved)
    _take_over(gm, traced, placeholders)


def on_device(value: Any, device: torch.device, fake: Any) -> Any:
    """Of a tensor, a fake one on `device` of the same shape, strides and dtype; anything else as it is.

    Only CPU tensors go to CUDA, and CUDA tensors to the CPU.
    """
    other = "cuda" if device.type == "cpu" else "cpu"
    if not isinstance(value, torch.Tensor) or value.device.type != other or fake is None:
        return value
    with fake:
        moved = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=device)
    return moved.requires_grad_() if value.requires_grad and device.type == "cpu" else moved


@contextlib.contextmanager
def devices_named(gm: torch.fx.GraphModule, device: torch.device) -> Iterator[None]:
    """Have `device=` arguments say `device` until the block ends: for passes that call operators on real tensors."""
    _replace_devices(gm, device)
    try:
        with _Redirected(device):
            yield
    finally:
        _replace_devices(gm, CUDA)


class _Redirected(torch.overrides.TorchFunctionMode):
    """Makes real tensors on another device than is asked for."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self._device = device

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.full and "device" in kwargs:
            kwargs = {**kwargs, "device": self._device}
        return func(*args, **kwargs)


class _TracedAgain(torch.fx.Interpreter):
    """Runs a graph node by node while it is traced, and copies each node's metadata to the nodes made from it."""

    def __init__(self, gm: torch.fx.GraphModule, fake: Any, decompositions: Table) -> None:
        super().__init__(gm)
        self._fake = fake
        self._decompositions = decompositions

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.op in {"placeholder", "output"}:
            return super().run_node(n)
        mode: Any = proxy_tensor.get_proxy_mode()
        if is_item_of_float(n):  # asked for again it would be a number of which nothing is known
            return self._unasked(n, mode)
        graph: torch.fx.Graph = mode.tracer.graph
        last = graph._root.prev
        try:
            result = super().run_node(n)
        except (RuntimeError, NotImplementedError) as error:
            # An operator that asks for CUDA itself keeps its shape and strides; anything else is a fault of the graph.
            if "CUDA" not in str(error) and "not linked" not in str(error) and "NVIDIA" not in str(error):
                raise
            result = self._unasked(n, mode)
        kept = {key: value for key, value in n.meta.items() if key not in _OWN}
        last = _hand_on(last, graph, kept)
        known = n.meta.get("val")
        if not isinstance(result, torch.Tensor) or not isinstance(known, torch.Tensor):
            return result
        if n.target in self._decompositions and result.dtype != known.dtype:
            # A decomposition may give another dtype than its operator (bernoulli: bool). Had AOTAutograd decomposed, it
            # would have converted what takes the place of a tensor.
            converted = torch.ops.aten._to_copy.default
            result = converted(result, dtype=known.dtype)
            _hand_on(last, graph, {**kept, "original_aten": converted})
        return result

    def _unasked(self, n: torch.fx.Node, mode: Any) -> Any:
        """A node as it was, with its value moved."""
        value = pytree.tree_map(lambda result: on_device(result, CUDA, self._fake), n.meta.get("val"))
        return traced_as(value, mode, n.op, n.target, self.fetch_args_kwargs_from_env(n))

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A tensor that the graph holds. A small one stays readable to Inductor, which writes it into the kernel."""
        value = super().get_attr(target, args, kwargs)
        if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
            return value
        if isinstance(value, torch._subclasses.FakeTensor):
            return on_device(value, CUDA, self._fake)
        if value.dim() == 0:
            with torch.utils._python_dispatch._disable_current_modes():
                number = value.item()
            return torch.ops.aten.full.default([], number, dtype=value.dtype, device=CUDA, pin_memory=False)
        if value.dim() == 1 and value.size(0) <= _INLINED:
            return torch.ops.prims.device_put.default(value, CUDA)
        return on_device(value, CUDA, self._fake)


def traced_as(value: Any, mode: Any, op: str, target: Any, arguments: tuple[Any, Any]) -> Any:
    """`value` as the result of a node that is added to the graph which `mode` traces."""
    args, named = pytree.tree_map(mode.tracer.unwrap_proxy, arguments)
    proxy = mode.tracer.create_proxy(op, target, args, named)
    return proxy_tensor.track_tensor_tree(value, proxy, constant=None, tracer=mode.tracer)


def _hand_on(last: torch.fx.Node, graph: torch.fx.Graph, meta: Mapping[str, Any]) -> torch.fx.Node:
    """Give the nodes after `last` this metadata; returns the last of them."""
    while last.next is not graph._root:
        last = last.next
        last.meta.update(meta)
    return last


def _take_over(
    gm: torch.fx.GraphModule, traced: torch.fx.GraphModule, placeholders: list[torch.fx.Node]
) -> None:
    """Give `gm` the new graph, under the old names of inputs: the partitioner tells tangents by them."""
    traced.graph.eliminate_dead_code()
    for old, new in zip(placeholders, traced.graph.find_nodes(op="placeholder"), strict=True):
        new.target = old.target
        new._rename(old.name)
        new.meta.update({key: value for key, value in old.meta.items() if key not in _OWN})
    old_output, new_output = (next(iter(graph.find_nodes(op="output"))) for graph in (gm.graph, traced.graph))
    new_output.meta.update(old_output.meta)
    new_output.args = (
        pytree.tree_leaves(new_output.args),
    )  # one row, as AOTAutograd has it: patterns count on that
    for node in traced.graph.find_nodes(op="get_attr"):
        setattr(gm, str(node.target), getattr(traced, str(node.target)))
    gm.graph = traced.graph
    gm.recompile()


def _replace_devices(gm: torch.fx.GraphModule, device: torch.device) -> None:
    def named(value: Any) -> Any:
        return device if isinstance(value, torch.device) and value.type in {"cpu", "cuda"} else value

    for node in gm.graph.nodes:
        if node.op == "call_function":
            node.args = pytree.tree_map(named, node.args, is_leaf=_is_node)
            node.kwargs = pytree.tree_map(named, node.kwargs, is_leaf=_is_node)


def _is_node(value: Any) -> bool:
    return isinstance(value, torch.fx.Node)


def _name_device(node: torch.fx.Node) -> None:
    """Move a node's `device=`, and give a factory function the one that it took by default."""

    def moved(value: Any) -> Any:
        return CUDA if isinstance(value, torch.device) and value.type == "cpu" else value

    node.args = pytree.tree_map(moved, node.args, is_leaf=_is_node)
    node.kwargs = pytree.tree_map(moved, node.kwargs, is_leaf=_is_node)
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or node.kwargs.get("device") is not None:
        return
    takes_tensor = any(isinstance(arg, torch.fx.Node) for arg in pytree.tree_leaves((node.args, node.kwargs)))
    if not takes_tensor and any(
        argument.name == "device" and argument.kwarg_only for argument in schema.arguments
    ):
        node.kwargs = {**node.kwargs, "device": CUDA}
