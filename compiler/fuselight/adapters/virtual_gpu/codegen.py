# ruff: noqa: SLF001, FBT003 - private names are this package's business
"""Runs AOTAutograd and Inductor on a captured graph, and reports their decisions to an observer.

Invariant of `generate`: no kernel is compiled, loaded or launched, and the captured graph is not changed. Invariant of
`compile_observed`: the code is what torch.compile makes of the graph with the same mode and options. Two things differ,
both for what is shown and for what is timed: the backward is compiled with the forward and not at the first backward
call, and C++ kernels carry a record for the profiler, which costs nothing while no profiler runs. An exception of an
observer goes to `broke` and does not change the generated code.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

import torch
import torch._dynamo.exc
import torch._dynamo.utils
import torch._functorch.config
import torch._guards
import torch._inductor.codegen.cpp
import torch._inductor.codegen.triton
import torch._inductor.compile_fx
import torch._inductor.config
import torch._inductor.debug
import torch._inductor.graph
import torch._inductor.ir
import torch._inductor.scheduler
import torch.hub
from torch._inductor.decomposition import select_decomp_table
from torch._inductor.fx_passes import joint_graph
from torch._inductor.virtualized import V

from fuselight.adapters.torch_api.patching import patched, wrapped
from fuselight.adapters.virtual_gpu.attention import attending
from fuselight.adapters.virtual_gpu.autotune_choices import decided, listing_choices
from fuselight.adapters.virtual_gpu.cuda_dispatch import dispatch_for
from fuselight.adapters.virtual_gpu.cuda_operators import cuda_operators
from fuselight.adapters.virtual_gpu.decomposed_layouts import laid_out_as_decomposed
from fuselight.adapters.virtual_gpu.device_interface import answering, virtual_gpu
from fuselight.adapters.virtual_gpu.partitioner import cut_with_free_constants, watching_partition
from fuselight.adapters.virtual_gpu.retarget import devices_named, numbers_later, retarget
from fuselight.shared.report import Device

BREAKS: tuple[type[Exception], ...] = torch._dynamo.exc.exceptions_allowed_to_be_fallback
"""What a backend raises for Dynamo to break the graph there and go on: torch.compile's own does too."""


class GenerationObserver(Protocol):
    """Receives the events of one graph; `graph` is Inductor's GraphLowering."""

    def partitioned(
        self, joint: str, forward: torch.fx.GraphModule, backward: torch.fx.GraphModule, outputs: int
    ) -> None:
        """AOTAutograd cut the graph with text `joint`; after `outputs` outputs, `forward` returns what it saves."""

    def lowered(self, graph: Any, module: torch.fx.GraphModule) -> None:
        """A graph of ATen operators goes to code generation."""

    def launched(
        self, name: str, nodes: Sequence[Any], scheduled: Any, candidates: Sequence[str] = ()
    ) -> None:
        """A launch of kernel `name` is written, for these IR nodes; `scheduled` is the scheduler's node.

        `candidates` are what a GPU would have tried in its place.
        """

    def refused(self, counts: Mapping[tuple[Any, Any, str], int]) -> None:
        """Pairs of scheduler nodes that were not fused, with torch's reason, and how often it was said."""

    def not_replayed(self, reason: str, nodes: Sequence[Any]) -> None:
        """A graph, or the part with these IR nodes, is kept out of CUDA graphs."""

    def written(self, graph: Any, text: str) -> None:
        """Inductor wrote the wrapper of a graph."""

    def broke(self, stage: str, error: Exception) -> None:
        """A hook failed: a fact is lost."""


def generate(
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    device: Device,
    observer: GenerationObserver | None,
    options: Mapping[str, Any],
    *,
    write: Callable[[Callable[..., Any], Any], tuple[Any, str]] | None = None,
) -> Callable[..., Any]:
    """Generate the code of `gm`, forward and (with gradients on) backward, for `device`. Raises what torch raises.

    Returns what calls the code that `write` made, as for `observing`; without it the code must not be called. Without
    an observer no text is made but that code.
    """
    gm = _copied(gm)
    virtual = device.backend != "cpu"
    compile_fx = torch._inductor.compile_fx
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        if virtual:
            dispatch_for(gm, device)
            fake = torch._guards.detect_fake_mode(inputs)
            if fake is not None:  # a constant that is written into a kernel stays a real tensor of the CPU's
                enter(patched(fake, "allow_non_fake_inputs", True))
            enter(cuda_operators())
            enter(attending(device))
            enter(virtual_gpu(device))
            if hasattr(torch._functorch.config, "graphsafe_rng_functionalization"):
                # Its states are read from the generators of a GPU, which are absent: the older way needs none.
                enter(torch._functorch.config.patch(graphsafe_rng_functionalization=False))
            numbers = enter(numbers_later())

            def retarget_first(real: Callable[..., Any], joint: Any, *args: Any, **named: Any) -> Any:
                # The first that Inductor does with a joint graph, or with that of an inference, is on the device.
                retarget(joint, select_decomp_table())
                numbers(joint)
                return real(joint, *args, **named)

            enter(wrapped(compile_fx, "_recursive_joint_graph_passes", retarget_first))
            enter(wrapped(joint_graph, "constant_fold_uniform_value", _folding_on_the_cpu))
            enter(wrapped(compile_fx, "min_cut_rematerialization_partition", cut_with_free_constants))
        choices = enter(listing_choices(device))
        if observer is None:
            enter(
                patched(torch.fx.GraphModule, "print_readable", lambda *_args, **_named: "")
            )  # for torch's logs
            enter(_writing(write or _text_only))
        else:
            enter(observing(observer, choices.of, write or _text_only))
        enter(patched(torch._dynamo.utils, "preserve_rng_state", contextlib.nullcontext))
        enter(
            torch._inductor.config.patch(
                {"fx_graph_cache": False, "compile_threads": 1, **decided(dict(options))}
            )
        )
        code: Any = compile_fx.compile_fx(
            gm,
            inputs,
            inner_compile=functools.partial(_inner, device if virtual else None),
            decompositions=laid_out_as_decomposed(select_decomp_table()) if virtual else None,
        )
        run: Callable[..., Any] = code
        return run


@contextlib.contextmanager
def observing(
    observer: GenerationObserver,
    candidates: Callable[[Sequence[Any]], Sequence[str]],
    write: Callable[[Callable[..., Any], Any], tuple[Any, str]],
) -> Iterator[None]:
    """Report launches, the partition of the joint graph, refused fusions, what CUDA graphs do not replay, and the text.

    `candidates(nodes)` returns what a GPU would have tried for a launch; `write(real, graph)` writes the code of a
    GraphLowering, as its own method `real` does, and returns the module and its text.
    """

    def observed(real: Callable[..., Any], graph: Any) -> tuple[Any, str]:
        tell(observer, observer.lowered, graph, graph.module)
        module, text = write(real, graph)
        if graph.disable_cudagraphs_reason:
            tell(observer, observer.not_replayed, str(graph.disable_cudagraphs_reason), ())
        tell(observer, observer.written, graph, text)
        return module, text

    def generated(real: Callable[..., Any], scheduled: Any, name: str, *args: Any, **named: Any) -> Any:
        # Inductor names the scheduler's nodes of each launch, for its own record of provenance.
        if isinstance(scheduled, (list, tuple)):
            nodes = [item.node for item in scheduled if getattr(item, "node", None) is not None]
            tell(observer, observer.launched, name, nodes, _scheduled(), candidates(nodes))
        return real(scheduled, name, *args, **named)

    def extern(real: Callable[..., Any], self: Any, wrapper: Any, kernel_name: str | None = None) -> None:
        # Everything else: not each of them has a name by then that the record of provenance would take.
        real(self, wrapper, kernel_name)
        name = kernel_name or self.try_get_kernel_name()
        if not name:
            overload = getattr(self, "op_overload", None)
            name = f"torch.ops.{overload}" if overload is not None else type(self).__name__
        tell(observer, observer.launched, name, [self], _scheduled(), candidates([self]))

    def should_partition(real: Callable[..., Any], self: Any, node: Any, *args: Any, **named: Any) -> Any:
        reason = real(self, node, *args, **named)
        if reason and torch._inductor.config.triton.cudagraphs:
            nodes = [item.node for item in node.get_nodes() if item.node is not None]
            tell(observer, observer.not_replayed, str(reason), nodes)
        return reason

    provenance, inductor = "set_kernel_post_grad_provenance_tracing", torch._inductor
    with contextlib.ExitStack() as stack:
        enter = stack.enter_context
        enter(wrapped(inductor.debug, provenance, generated))
        for module in (inductor.codegen.triton, inductor.codegen.cpp):
            enter(patched(module, provenance, getattr(inductor.debug, provenance)))
        enter(wrapped(inductor.ir.ExternKernel, "codegen_comment", extern))
        enter(watching_partition(observer.partitioned, observer.broke))
        enter(_reporting_refusals(observer))
        enter(wrapped(inductor.scheduler.Scheduler, "should_partition", should_partition))
        enter(_writing(observed))
        yield


@contextlib.contextmanager
def _writing(write: Callable[[Callable[..., Any], Any], tuple[Any, str]]) -> Iterator[None]:
    """Have `write(real, graph)` write the code of each graph, of a backward with its forward's."""
    with (
        wrapped(
            torch._inductor.graph.GraphLowering,
            "compile_to_module",
            lambda real, graph: write(real, graph)[0],
        ),
        torch._functorch.config.patch(enable_autograd_cache=False, force_non_lazy_backward_lowering=True),
    ):
        yield


def _copied(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of a graph of Dynamo's that knows which inputs are parameters: those are free to keep for backward."""
    module = copy.deepcopy(gm)
    if hasattr(gm, "_param_name_to_source"):
        module._param_name_to_source = gm._param_name_to_source
    for old, new in zip(
        gm.graph.find_nodes(op="placeholder"), module.graph.find_nodes(op="placeholder"), strict=True
    ):
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    return module


def mode_options(mode: str | None) -> dict[str, Any]:
    """The Inductor options of a torch.compile mode."""
    if mode in (None, "default"):
        return {}
    options: dict[str, Any] = torch._inductor.list_mode_options(mode)
    return options


def _inner(device: Device | None, gm: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
    if device is None:
        return torch._inductor.compile_fx.compile_fx_inner(gm, inputs, **options)
    # What goes into the forward graph is on the CPU yet; what goes into the backward graph has the strides that the
    # forward's kernels give, which its placeholders do not know.
    values = [
        node.meta["val"] if isinstance(value, torch.Tensor) and value.device.type == "cpu" else value
        for node, value in zip(gm.graph.find_nodes(op="placeholder"), inputs, strict=True)
    ]
    with answering(device):
        return torch._inductor.compile_fx.compile_fx_inner(gm, values, **options)


def _folding_on_the_cpu(real: Callable[..., Any], gm: torch.fx.GraphModule) -> Any:
    """This pass evaluates constants as real tensors."""
    with devices_named(gm, torch.device("cpu")):
        return real(gm)


def _text_only(_real: Callable[..., Any], graph: Any) -> tuple[Any, str]:
    text = text_of(graph)
    return Unloaded(text), text


def text_of(graph: Any) -> str:
    """The wrapper of a graph, which is in no file."""
    code, _ = graph.codegen()
    graph.cache_key, graph.cache_path, graph.cache_linemap = "virtual", __file__, []
    return str(getattr(code, "value", code))


def _not_launched(_args: Sequence[Any]) -> Any:
    """The user's program continues with the captured graph."""
    raise RuntimeError("kernels that were generated for another device are not launched")


class Unloaded:
    """In the place of the module of generated code."""

    __file__ = __file__
    key = "virtual"

    def __init__(self, code: str) -> None:
        self.code = code
        self.runner: Any = self
        self.partitions: list[Any] = []
        self.call: Callable[[Sequence[Any]], Any] = _not_launched

    def recursively_apply_fns(self, _functions: Any) -> None:
        """Wrap no part: CUDA graphs are not recorded."""


def tell(observer: GenerationObserver, notify: Callable[..., None], *args: Any) -> None:
    """Call one of the observer's methods; an exception of it goes to `observer.broke`."""
    try:
        notify(*args)
    except Exception as error:  # noqa: BLE001 - an observer must not change what it observes
        observer.broke(getattr(notify, "__name__", "?"), error)


def _scheduled() -> Any:
    return getattr(V.graph.scheduler, "current_node", None)


@contextlib.contextmanager
def _reporting_refusals(observer: GenerationObserver) -> Iterator[None]:
    """Report the pairs of scheduler nodes that were not fused, with torch's reason and its count.

    Nodes are compared by the thousand: they are counted at once and reported when the schedule ends. No node is held
    after that.
    """
    scheduler = torch._inductor.scheduler
    pairs: dict[int, tuple[Any, Any]] = {}
    counts: Counter[tuple[Any, Any, str]] = Counter()

    def init(real: Callable[..., Any], self: Any, node1: Any, node2: Any) -> None:
        real(self, node1, node2)
        pairs[id(self)] = node1, node2

    def call(real: Callable[..., Any], self: Any, reason: str, *args: Any) -> None:
        real(self, reason, *args)
        pair = pairs.get(id(self))
        if pair is not None:
            counts[pair[0], pair[1], reason] += 1

    def fuse_nodes(real: Callable[..., Any], self: Any, nodes: Any) -> Any:
        pairs.clear()
        counts.clear()
        fused = real(self, nodes)
        tell(observer, observer.refused, dict(counts))
        pairs.clear()
        counts.clear()
        return fused

    with (
        wrapped(scheduler.WhyNoFuse, "__init__", init),
        wrapped(scheduler.WhyNoFuse, "__call__", call),
        wrapped(scheduler.Scheduler, "fuse_nodes", fuse_nodes),
    ):
        yield


class CompilationObserver(GenerationObserver, Protocol):
    """Receives the events of one graph that is compiled."""

    def loaded(self, module: ModuleType) -> None:
        """The wrapper of the graph that is `written` next is loaded."""

    def compiled(self, key: str | None) -> str:
        """A graph is compiled, Inductor's cache key of it; returns what profiles are to call it."""
        ...


def inductor_backend(
    mode: str | None, options: Mapping[str, Any], *, dynamic: bool | None
) -> Callable[..., Any]:
    """What torch.compile(mode=..., options=...) calls for each graph. Raises RuntimeError for unknown options."""
    wrapper: Any = torch._TorchCompileInductorWrapper
    backend: Callable[..., Any] = wrapper(mode, dict(options), dynamic)
    return backend


def asks_for_cudagraphs(backend: Callable[..., Any]) -> bool:
    """Whether a backend of `inductor_backend` replays CUDA graphs."""
    return bool(
        getattr(backend, "config", {}).get("triton.cudagraphs", torch._inductor.config.triton.cudagraphs)
    )


def compile_observed(
    backend: Callable[..., Any],
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    observer: CompilationObserver,
) -> Callable[..., Any]:
    """Compile `gm` with a backend of `inductor_backend`. Raises what torch raises."""

    def write(real: Callable[..., Any], graph: Any) -> tuple[Any, str]:
        module = real(graph)
        with open(module.__file__, encoding="utf-8") as file:
            text = file.read()
        tell(observer, observer.loaded, module)
        return module, text

    def compile_inner(real: Callable[..., Any], *args: Any, **named: Any) -> Any:
        compiled = real(*args, **named)
        try:  # a unique name in profiles: equal graphs share one key in Inductor's cache
            compiled._fx_graph_cache_key = observer.compiled(getattr(compiled, "_fx_graph_cache_key", None))
        except Exception as error:  # noqa: BLE001 - an observer must not change what it observes
            observer.broke("compiled", error)
        return compiled

    with (
        observing(observer, lambda _: (), write),
        wrapped(torch._inductor.compile_fx, "_compile_fx_inner", compile_inner),
        torch._inductor.config.patch({"cpp.enable_kernel_profile": True}),
    ):
        run: Callable[..., Any] = backend(gm, inputs)
        return run
