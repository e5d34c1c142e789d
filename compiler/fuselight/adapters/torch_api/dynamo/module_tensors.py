# ruff: noqa: SLF001 - private names are this package's business
"""Parameters and buffers among the inputs of a captured graph, as attributes of its module; and a later compile.

Invariant: the tensors themselves are not changed, and a copy of a graph shares them with it.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch._dynamo.utils
import torch._guards
import torch.fx
from torch.utils._python_dispatch import _disable_current_modes

from fuselight.adapters.torch_api.dynamo import captured_graphs
from fuselight.adapters.torch_api.patching import patched

_NOT_INPUTS = frozenset({"grapharg", "tensor_dict", "steal_arg"})
"""What Dynamo knows of a node because it is an input."""
_PLAIN = (torch.Tensor, torch.nn.Parameter)


def is_static(node: torch.fx.Node, value: object) -> bool:
    """Whether each call is expected to bring the same tensor: a parameter, a buffer, or one that is marked so."""
    if not isinstance(value, torch.Tensor):
        return False
    return getattr(value, "_dynamo_static_input_type", None) is not None or captured_graphs.is_of_module(
        node, value
    )


def unholdable(gm: torch.fx.GraphModule, node: torch.fx.Node, value: torch.Tensor) -> str:
    """Why a tensor cannot become an attribute that is taken for constant, as `sharded weights`; empty if it can."""
    source = _source(node)
    guard_source = getattr(source, "guard_source", None)
    if callable(guard_source):  # a method before 2.11
        guard_source = guard_source()
    sharded = getattr(guard_source, "is_fsdp_module", None)
    if callable(sharded) and sharded():
        return "weights that FSDP shards"
    if type(value) not in _PLAIN:
        return f"weights of type {type(value).__name__}"
    if value.is_inference():
        return "weights that were made under torch.inference_mode(), whose changes torch does not count"
    if source is None and _sources(gm) is not None:
        return "weights of unknown origin"
    return ""


def hold(gm: torch.fx.GraphModule, node: torch.fx.Node, value: torch.Tensor) -> None:
    """Make an input an attribute of the graph's module, as Dynamo does itself where Inductor's freezing is on."""
    name = f"held_{node.name}"
    while hasattr(gm, name):
        name += "_"
    if isinstance(value, torch.nn.Parameter):
        gm.register_parameter(name, value)
    else:
        gm.register_buffer(name, value)
    sources = _sources(gm)
    if sources is not None:
        sources[name] = _source(node)
    with gm.graph.inserting_before(captured_graphs.placeholders(gm)[-1].next):
        attribute_node = gm.graph.get_attr(name)
    attribute_node.meta = {key: result for key, result in node.meta.items() if key not in _NOT_INPUTS}
    node.replace_all_uses_with(attribute_node)
    gm.graph.erase_node(node)


def _source(node: torch.fx.Node) -> Any:
    return getattr(node, "_dynamo_source", None) or getattr(node.meta.get("grapharg"), "source", None)


def _sources(gm: torch.fx.GraphModule) -> Any:
    """Dynamo's own record of where each attribute is from; None for a graph that it did not capture."""
    return getattr(gm, "_param_name_to_source", None)


def is_freezing_set() -> bool:
    """Whether the program's settings have Dynamo and Inductor freeze what runs under torch.no_grad().

    An option of torch.compile is no such setting: it is in force after Dynamo.
    """
    config: Any = importlib.import_module("torch._inductor.config")
    return bool(getattr(config, "freezing", False))


def scalars_in_cache_keys() -> contextlib.AbstractContextManager[Any]:
    """Inside, keys of Inductor's cache of graphs contain the values of frozen scalars, which its code contains.

    Torch puts the metadata of frozen tensors alone into a key, as the code reads them when it is loaded. But a tensor
    without dimensions becomes a literal: another checkpoint would get the code with the first one's scalars.
    """
    codecache: Any = importlib.import_module("torch._inductor.codecache")
    is_frozen: Any = getattr(codecache, "is_frozen_param", None)
    if is_frozen is None:
        config: Any = importlib.import_module("torch._inductor.config")
        uncached: contextlib.AbstractContextManager[Any] = config.patch(fx_graph_cache=False)
        return uncached
    return patched(codecache, "is_frozen_param", lambda tensor: tensor.dim() > 0 and is_frozen(tensor))


def copied(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of a captured graph with everything that AOTAutograd reads; the tensors are shared."""
    module = torch.fx.GraphModule(gm, copy.deepcopy(gm.graph))
    module.meta = dict(gm.meta)
    sources = _sources(gm)
    if sources is not None:
        vars(module)["_param_name_to_source"] = dict(sources)
    for old, new in zip(captured_graphs.placeholders(gm), captured_graphs.placeholders(module), strict=True):
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    return module


class LaterCompile:
    """Compiles a captured graph when Dynamo no longer traces, with the symbolic sizes of its trace.

    Made while Dynamo waits for its backend. AOTAutograd compiles a backward at its first call in the same way.
    """

    def __init__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        self.graph = copied(gm)
        """The graph, to be run as it is."""
        self._context = torch._guards.TracingContext.try_get()
        self._inputs = [self._fake(argument) for argument in inputs]

    def _fake(self, value: Any) -> Any:
        mode = getattr(self._context, "fake_mode", None)
        if self._context is None or mode is None or not isinstance(value, torch.Tensor):
            return value
        contexts: Any = self._context.tensor_to_context
        known = contexts.get(value)
        return mode.from_tensor(value, symbolic_context=known, source=getattr(known, "tensor_source", None))

    def __call__(self, backend: Callable[..., Any]) -> Callable[..., Any]:
        """Compile with a Dynamo backend. Raises what it raises, also because the graph cannot be compiled so late."""
        with self._as_traced():
            compiled: Callable[..., Any] = backend(copied(self.graph), self._inputs)
        return compiled

    @contextlib.contextmanager
    def _as_traced(self) -> Iterator[None]:
        with (
            torch._guards.tracing(self._context),
            _disable_current_modes(),
            torch._dynamo.utils.preserve_rng_state(),
        ):
            yield
