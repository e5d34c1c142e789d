# ruff: noqa: SLF001, FBT003, PLR0917 - private names are this package's business; the flags are ATen's
"""Replaces `scaled_dot_product_attention` with the operator of a CUDA device, wherever it is traced.

It dispatches by device while it is traced, which is on the CPU. The CUDA operators trace on CPU fakes all the same,
with their real backward, so the choice is made in its place: for Dynamo's graph, for what ATen or a user's function
calls below it, and for what a pattern of Inductor's puts in. Invariant: the choice is that of `attention_choice`.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._inductor.pattern_matcher
import torch.fx
from torch.nn.functional import pad

from fuselight.report import Device
from fuselight.torch_api.patching import wrapped
from fuselight.virtual_gpu.attention_backend import choose
from fuselight.virtual_gpu.cuda_operators import composite_replaced
from fuselight.virtual_gpu.retarget import on_device, retarget

_CUDNN_AWAY = -65536.0
"""What cuDNN's kernel is given where a mask is false; in float16 the least that there is."""
_ALIGNED = 16
"""Elements to which the memory-efficient kernel wants its mask's rows aligned."""
_CPU = torch.device("cpu")
SDPA = torch.ops.aten.scaled_dot_product_attention.default
FOR_CPU = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


class _TracedError(Exception):
    """Stops the trace once the joint graph exists: it must not run."""


@contextlib.contextmanager
def attending(device: Device) -> Iterator[None]:
    """Have `scaled_dot_product_attention` be what it is on `device` until the block ends."""
    matcher: Any = torch._inductor.pattern_matcher
    with (
        composite_replaced(SDPA, attention_of(device)),
        wrapped(matcher, "aot_function", _tracing_joints_on_the_cpu),
    ):
        yield


def attention_of(device: Device) -> Callable[..., torch.Tensor]:
    """What `scaled_dot_product_attention` does on `device`."""

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,  # noqa: FBT001, FBT002
        scale: float | None = None,
        enable_gqa: bool = False,  # noqa: FBT001, FBT002
    ) -> torch.Tensor:
        aten: Any = torch.ops.aten
        tensors = (query, key, value)
        keep = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
        kernel = choose(
            device, *tensors, attn_mask, dropout_p, is_causal=is_causal, enable_gqa=enable_gqa, training=keep
        )
        # A mask is made in full for the kernels; `scalar_tensor` is what ATen makes it of.
        mask = attn_mask
        if mask is not None and mask.dtype == torch.bool:
            make: dict[str, Any] = {"dtype": query.dtype, "device": query.device}
            away = max(_CUDNN_AWAY, torch.finfo(query.dtype).min) if kernel == "cudnn" else -math.inf
            mask = torch.where(mask, torch.scalar_tensor(0.0, **make), torch.scalar_tensor(away, **make))
        found: torch.Tensor
        if kernel == "cudnn":
            return aten._scaled_dot_product_cudnn_attention.default(  # type: ignore[no-any-return]
                *tensors, mask, keep, dropout_p, is_causal, False, scale=scale
            )[0]
        if kernel == "flash":
            size = query.size(-1)
            padded = [tensor if size % 8 == 0 else pad(tensor, (0, 8 - size % 8)) for tensor in tensors]
            scale = 1 / math.sqrt(size) if scale is None else scale
            found = aten._scaled_dot_product_flash_attention.default(
                *padded, dropout_p, is_causal, False, scale=scale
            )[0]
            return found if size % 8 == 0 else found[..., :size]
        if kernel == "efficient":
            bias = None if mask is None else _aligned(mask).expand(*query.shape[:3], key.size(2))
            return aten._scaled_dot_product_efficient_attention.default(  # type: ignore[no-any-return]
                *tensors, bias, keep, dropout_p, is_causal, scale=scale
            )[0]
        return aten._scaled_dot_product_attention_math.default(  # type: ignore[no-any-return]
            *tensors, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )[0]

    return attention


def takes_place_of(device: Device) -> Callable[..., tuple[torch.Tensor, None]]:
    """The replacement for the CPU's attention operator in a graph that calls it and uses one result."""

    def attention(
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        dropout_p: float = 0.0,
        is_causal: bool = False,  # noqa: FBT001, FBT002
        *,
        attn_mask: torch.Tensor | None = None,
        scale: float | None = None,
    ) -> tuple[torch.Tensor, None]:
        return attention_of(device)(query, key, value, attn_mask, dropout_p, is_causal, scale), None

    return attention


def names_the_cpus(node: torch.fx.Node) -> bool:
    """Whether a node calls the CPU's own attention operator, and no more than what it attends is used of it."""
    return (
        node.op == "call_function"
        and node.target in {FOR_CPU, FOR_CPU.default}
        and all(user.target is operator.getitem and user.args[1] == 0 for user in node.users)
    )


def _tracing_joints_on_the_cpu(
    real: Callable[..., Any], fn: Any, compiler: Any, *, partition_fn: Any, decompositions: Any, **named: Any
) -> Callable[..., None]:
    """Replaces `aot_function` where a pattern's replacement for training is traced.

    Autograd cannot run over fake CUDA tensors where there is no CUDA: it runs over CPU ones; what it gives is moved.
    """

    def partition(joint: torch.fx.GraphModule, inputs: Any, **more: Any) -> Any:
        retarget(joint, decompositions)
        partition_fn(joint, inputs, **more)  # keeps the graph
        raise _TracedError

    traced = real(fn, compiler, partition_fn=partition, decompositions={}, **named)

    def trace(*args: Any) -> None:
        fake = torch._guards.detect_fake_mode(args)
        with contextlib.suppress(_TracedError):
            traced(*(on_device(arg, _CPU, fake) for arg in args))

    return trace


def _aligned(mask: torch.Tensor) -> torch.Tensor:
    """A mask whose rows begin where the memory-efficient kernel can read them; where that is open, ATen makes it so."""
    strides = mask.stride()
    known = all(isinstance(stride, int) for stride in strides)
    if known and strides[-1] == 1 and all(stride % _ALIGNED == 0 for stride in strides[:-1]):
        return mask
    size = mask.size(-1)
    return pad(mask, (0, _ALIGNED - size % _ALIGNED))[..., :size]
