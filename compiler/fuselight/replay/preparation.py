"""What a tuned configuration changes of a captured graph before Inductor compiles it: `report.tuned.Preparation`.

Invariant: one code for benchmark, search and replay. The program's own settings win: under its own autocast, or with
its own precision of matrix multiplications, the precision is left alone. All settings are as before after each call.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.attention

from fuselight.adapters.torch_api.choices.longest_multiplications import autotuning_longest
from fuselight.adapters.torch_api.dynamo import captured_graphs
from fuselight.adapters.torch_api.inductor.inductor_backend import Context, InductorBackend, has_option
from fuselight.replay.freezing import FREEZING, Backend, FreezingBackend, Say
from fuselight.replay.layouts import to_channels_last
from fuselight.shared.report.tuned import Preparation
from fuselight.shared.tuned_code import STATIC_LAUNCHER, restartable

_ATTENTION = {
    "flash": "FLASH_ATTENTION",
    "efficient": "EFFICIENT_ATTENTION",
    "cudnn": "CUDNN_ATTENTION",
    "math": "MATH",
}


def _unsaid(_: str) -> None:
    """Report nothing."""


class PreparedBackend:
    """A Dynamo backend that changes each graph as `preparation` says, and hands it to `backend`."""

    def __init__(self, preparation: Preparation, backend: Backend) -> None:
        self.preparation = preparation
        self.backend = backend

    @property
    def config(self) -> Mapping[str, Any]:
        """Options of the backend, where it has any."""
        config: Mapping[str, Any] = getattr(self.backend, "config", {})
        return config

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        """Compile a captured graph for Dynamo. Raises what the backend raises."""
        if self.preparation.channels_last:
            to_channels_last(gm, inputs)
        if self.preparation.precision == "bf16":
            add_autocast(gm, torch.bfloat16)
        return self.backend(gm, inputs, **asked)


def prepared_inductor(
    preparation: Preparation,
    mode: str | None,
    options: Mapping[str, Any],
    *,
    dynamic: bool | None = None,
    compiling: Context | None = None,
    say: Say = _unsaid,
    freezes: bool = True,
    longest: int = 0,
) -> Backend:
    """torch.compile's own backend with `mode` and `options`, after `preparation`.

    `compiling` is another context that is in force while Inductor compiles. With `longest`, only that many
    multiplications of a graph are timed, if the options time any. `freezes` has the option `freezing` freeze
    weights, which torch alone does not, and makes the options `restartable`; `say` gets a sentence where freezing has
    no effect, at a compile or later. Raises RuntimeError for unknown options.
    """
    if freezes and has_option(STATIC_LAUNCHER):
        options = restartable(options)
    few = functools.partial(autotuning_longest, longest) if longest else None
    contexts = [
        function
        for function in (_attention(preparation), _precision(preparation), compiling, few)
        if function is not None
    ]
    tags = [f"+attention={preparation.attention}"] * bool(preparation.attention)
    tags += [f"+longest={longest}"] * bool(longest)
    inductor = functools.partial(
        InductorBackend,
        mode,
        dynamic=dynamic,
        compiling=_all_of(contexts) if contexts else None,
        calling=_precision(preparation),
        cache_tag="".join(tags),
    )
    backend: Backend = inductor(options)
    if freezes and options.get(FREEZING):
        backend = FreezingBackend(backend, inductor({**options, FREEZING: False}), say)
    return prepared(preparation, backend)


def prepared(preparation: Preparation, backend: Backend) -> Backend:
    """A backend that gets each graph after `preparation`."""
    return PreparedBackend(preparation, backend) if preparation != Preparation() else backend


def _all_of(contexts: Sequence[Context]) -> Context:
    @contextlib.contextmanager
    def entered() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context())
            yield

    return entered


def _attention(preparation: Preparation) -> Context | None:
    """In force while AOTAutograd traces: scaled_dot_product_attention is decomposed to this implementation."""
    if not preparation.attention:
        return None
    backends = torch.nn.attention.SDPBackend
    wanted = getattr(backends, _ATTENTION[preparation.attention])
    # A call that this implementation cannot make, for example with a mask, falls back as it would in eager mode.
    chosen = list(dict.fromkeys([wanted, backends.MATH]))
    if len(chosen) == 1 or "set_priority" not in inspect.signature(torch.nn.attention.sdpa_kernel).parameters:
        return lambda: torch.nn.attention.sdpa_kernel(chosen)
    return lambda: torch.nn.attention.sdpa_kernel(chosen, set_priority=True)


def _precision(preparation: Preparation) -> Context | None:
    return tf32_multiplications if preparation.precision == "tf32" else None


@contextlib.contextmanager
def tf32_multiplications() -> Iterator[None]:
    """Within the block, float32 matrix multiplications may use TF32, unless the program chose a precision."""
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # the program chose by the newer settings, which torch refuses to read by this one
        before = ""
    if before != "highest":
        yield
        return
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def add_autocast(gm: torch.fx.GraphModule, dtype: torch.dtype) -> None:
    """Put a whole graph under autocast, as a `with` statement around the code would; results keep their dtypes."""
    calls = captured_graphs.autocast_calls()
    device = captured_graphs.device_of(gm).type
    if calls is None or captured_graphs.has_autocast(device):
        return
    enter, leave = calls
    inputs = captured_graphs.placeholders(gm)
    first = inputs[-1].next if inputs else next(iter(gm.graph.nodes))
    output = captured_graphs.output_node(gm)
    with gm.graph.inserting_before(first):
        entered = gm.graph.call_function(enter, (device, dtype, True, torch.is_autocast_cache_enabled()))
    with gm.graph.inserting_before(output):
        gm.graph.call_function(leave, (entered,))
        results = [_with_dtype(gm, output) for output in captured_graphs.outputs_of(gm)]
    output.args = (tuple(results),)
    gm.recompile()


def _with_dtype(gm: torch.fx.GraphModule, result: Any) -> Any:
    value = captured_graphs.example_value(result) if isinstance(result, torch.fx.Node) else None
    if result_is_input(result) or not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return result
    return gm.graph.call_method("to", (result, value.dtype))


def result_is_input(result: Any) -> bool:
    """Whether a graph returns one of its inputs as it is."""
    return isinstance(result, torch.fx.Node) and result.op == "placeholder"
