"""The memory of recurrent layers on a GPU, where cuDNN runs all steps of all layers at once: values are not computed.

Invariant: outside of the context, and for real tensors, nothing is changed. What is kept for the backward is that of
cuDNN 9 to 256 bytes, and the workspace is as large as the largest that was measured (torch 2.11, NVIDIA H200): the
library chooses among kernels.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from fuselight.adapters.torch_api.patching import patched

_LAYER_WORKSPACE = 8 << 20
"""Bytes of the workspace for each layer and direction."""
_BEGIN = 256
_PERSISTENT = 256
"""Hidden size from which on kernels keep the weights of float32 on the chip."""


@dataclass(frozen=True)
class _Kind:
    """Numbers for each number of the result, of all layers."""

    kept: int
    workspace: int
    persistent: int
    """Those of the workspace with 16 bits, or from `_PERSISTENT` on."""


_KINDS = {
    "lstm": _Kind(5, 22, 7),
    "gru": _Kind(6, 20, 6),
    "rnn_tanh": _Kind(1, 15, 15),
    "rnn_relu": _Kind(1, 15, 15),
}


@dataclass(frozen=True)
class _Layers:
    """A call of recurrent layers."""

    kind: _Kind
    layers: int
    directions: int
    training: bool

    def output_size(self, x: torch.Tensor, hidden: torch.Tensor) -> tuple[int, ...]:
        return (*x.shape[:-1], self.directions * hidden.size(-1))

    def kept(self, output: torch.Tensor) -> int:
        """Bytes for the backward: of each step in each layer, and the results of all layers but the last one."""
        numbers = self.kind.kept * self.layers + self.layers - 1
        return numbers * output.numel() * output.element_size() + _BEGIN

    def workspace(self, output: torch.Tensor, hidden: torch.Tensor) -> int:
        is_persistent = output.element_size() < torch.float32.itemsize or hidden.size(-1) >= _PERSISTENT
        numbers = self.kind.persistent if is_persistent else self.kind.workspace
        own = numbers * output.numel() * output.element_size()
        return own + self.layers * self.directions * _LAYER_WORKSPACE


class _Recurrent(torch.autograd.Function):
    """The memory of `_cudnn_rnn`."""

    @staticmethod
    def forward(
        ctx: Any, call: _Layers, x: torch.Tensor, states: int, *tensors: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """The result and the last states; `tensors`: `states` first states, and the weights."""
        output = x.new_empty(call.output_size(x, tensors[0]))
        last = [torch.empty_like(state) for state in tensors[:states]]
        reserve = x.new_empty(call.kept(output) if call.training else 0, dtype=torch.uint8)
        x.new_empty(call.workspace(output, tensors[0]), dtype=torch.uint8)
        ctx.save_for_backward(x, output, reserve, *tensors)
        ctx.call, ctx.states = call, states
        return (output, *last)

    @staticmethod
    def backward(ctx: Any, *_gradients: Any) -> tuple[Any, ...]:
        """The gradients; those of all weights are in one piece."""
        x, output, _, *tensors = ctx.saved_tensors
        states, weights = tensors[: ctx.states], tensors[ctx.states :]
        gradients = [torch.empty_like(x), *(torch.empty_like(state) for state in states)]
        sizes = [weight.numel() for weight in weights]
        whole = x.new_empty(sum(sizes))
        x.new_empty(ctx.call.workspace(output, tensors[0]), dtype=torch.uint8)
        parts = [part.view_as(weight) for part, weight in zip(whole.split(sizes), weights, strict=True)]
        return None, gradients[0], None, *gradients[1:], *parts


@contextlib.contextmanager
def recurrent_forms(used: Callable[[bool], None]) -> Iterator[None]:
    """Inside, `nn.LSTM`, `nn.GRU` and `nn.RNN` have the memory of a GPU for fake tensors.

    `used(is_known)` hears of each call: packed sequences and projections are not known, and run as on a CPU.
    """
    owner: Any = torch._VF  # noqa: SLF001 - where its own layers look the functions up
    with contextlib.ExitStack() as stack:
        for name, kind in _KINDS.items():
            stack.enter_context(patched(owner, name, _form(getattr(owner, name), kind, used)))
        yield


def _form(real: Callable[..., Any], kind: _Kind, used: Callable[[bool], None]) -> Callable[..., Any]:
    def form(*args: Any) -> Any:
        if not isinstance(args[0], FakeTensor):
            return real(*args)
        call = _call(kind, args)
        used(call is not None)
        if call is None:
            return real(*args)
        states = args[1] if isinstance(args[1], (tuple, list)) else [args[1]]
        results = _Recurrent.apply(call, args[0], len(states), *states, *args[2])  # type: ignore[no-untyped-call]
        return tuple(results)

    compiled_around: Callable[..., Any] = torch.compiler.disable(form)  # type: ignore[no-untyped-call]
    return compiled_around


def _call(kind: _Kind, args: Sequence[Any]) -> _Layers | None:
    """What is called, if it has the form of a padded sequence without projections."""
    arguments = 9
    if len(args) != arguments:
        return None
    _, _, weights, has_biases, layers, _, training, is_bidirectional, _ = args
    if not isinstance(weights, (list, tuple)) or not isinstance(has_biases, bool):
        return None
    directions = 1 + bool(is_bidirectional)
    each = 4 if has_biases else 2
    if len(weights) != each * layers * directions:
        return None
    return _Layers(kind, layers, directions, training)
