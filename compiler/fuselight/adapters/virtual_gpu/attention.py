# ruff: noqa: SLF001, FBT003, PLR0917 - private names are this package's business; the flags are ATen's
"""Replaces `scaled_dot_product_attention` with the operator of a CUDA device, wherever it is traced.

It dispatches by device while it is traced, which is on the CPU. The CUDA operators trace on CPU fakes all the same,
with their real backward, so the choice is made in its place: for Dynamo's graph, for what ATen or a user's function
calls below it, and for what a pattern of Inductor's puts in. Invariant: the choice is that of `choose`, the rule of
ATen's sdp_utils.cpp (device, dtype, shapes, strides, mask, the switches of `torch.backends.cuda`), in its order, for a
torch with the cuDNN that its CUDA wheels bring.
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
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional
from torch.nn.functional import pad

from fuselight.adapters.torch_api.patching import patched, wrapped
from fuselight.adapters.virtual_gpu.cuda_operators import composite_replaced
from fuselight.adapters.virtual_gpu.retarget import on_device, retarget
from fuselight.shared.report import Device

_HALF = frozenset({torch.float16, torch.bfloat16})
_FLASH_HEAD = 256
_CUDNN_HEAD, _CUDNN_HEAD_HOPPER = 128, 256
_HEADS_OF_CUDNN = (192, 128)
"""Sizes of query and value that cuDNN also takes on Blackwell."""
_NO_TRAINING = (192, 224)
"""Heads for which flash has no backward on devices with little shared memory; above them, none with dropout."""
_CUDNN_AWAY = -65536.0
"""What cuDNN's kernel is given where a mask is false; in float16 the least that there is."""
_ALIGNED = 16
"""Elements to which the memory-efficient kernel wants its mask's rows aligned."""
_CPU = torch.device("cpu")
SDPA = torch.ops.aten.scaled_dot_product_attention.default
FOR_CPU = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu


def choose(
    device: Device,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout: float,
    *,
    is_causal: bool,
    enable_gqa: bool,
    training: bool,
) -> str:
    """`cudnn`, `flash`, `efficient` or `math`: ATen's first that takes the inputs. RuntimeError where none does.

    `torch._fused_sdp_choice` is no help: it dispatches by the device of its inputs, and these are fakes on the CPU.
    """
    capability = device.capability
    fits = _fits(query, key, value)
    equal_heads = query.dim() == 4 and query.size(1) == key.size(1) == value.size(1)  # noqa: PLR2004
    in_groups = fits and key.size(1) == value.size(1) and query.size(1) % key.size(1) == 0
    grouped = equal_heads or (enable_gqa and in_groups)
    cuda: Any = torch.backends.cuda
    major, minor = capability
    preferred = device.backend == "cuda" and major in {9, 10} and minor in {0, 3}  # AMD's build has no cuDNN
    if (
        preferred
        and cuda.cudnn_sdp_enabled()
        and not (mask is not None and mask.requires_grad)  # a bias that is learned has no gradient in cuDNN
        and fits
        and grouped
        and _dense(query, key, value, mask, singleton=True)
        and _cudnn(capability, query, key, value, dropout)
    ):
        return "cudnn"
    if (
        cuda.flash_sdp_enabled()
        and fits
        and grouped
        and mask is None
        and _dense(query, key, value, mask, singleton=True)
        and _flash(capability, query, key, value, dropout, is_causal=is_causal, training=training)
    ):
        return "flash"
    if (
        cuda.mem_efficient_sdp_enabled()
        and fits
        and equal_heads
        and _dense(query, key, value, mask, singleton=False)
        and _efficient(capability, query, value)
    ):
        return "efficient"
    if cuda.math_sdp_enabled():
        return "math"
    raise RuntimeError("No available kernel. Aborting execution.")  # ATen's words


def _fits(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """What each kernel but math asks of shapes: batch, heads, length, size; one batch; nothing empty."""
    tensors = (query, key, value)
    if any(tensor.dim() != 4 for tensor in tensors) or len({tensor.dtype for tensor in tensors}) > 1:  # noqa: PLR2004
        return False
    if not query.size(0) == key.size(0) == value.size(0):
        return False
    return query.size(2) != 0 and key.size(2) != 0 and query.size(3) == key.size(3)


def _dense(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, *, singleton: bool
) -> bool:
    """Whether rows lie in one piece; where `singleton`, a row of one element does in any case."""
    if mask is not None and mask.stride(-1) != 1:
        return False
    return all(
        tensor.stride(-1) == 1 or (singleton and tensor.size(-1) == 1) for tensor in (query, key, value)
    )


def _cudnn(
    capability: tuple[int, int], query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: float
) -> bool:
    size, value_size = query.size(3), value.size(3)
    most = _CUDNN_HEAD_HOPPER if capability == (9, 0) else _CUDNN_HEAD
    if capability[0] == 10 and (size, value_size) == _HEADS_OF_CUDNN:  # noqa: PLR2004
        most = size
    return (
        query.dtype in _HALF
        and (
            not torch.are_deterministic_algorithms_enabled()
            or torch.is_deterministic_algorithms_warn_only_enabled()
        )
        and size <= most
        and value_size <= most
        and size % 8 == 0
        and value_size % 8 == 0
        and key.size(2) != 1
        and not (query.size(2) == 1 and dropout != 0.0)
    )


def _flash(
    capability: tuple[int, int],
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout: float,
    *,
    is_causal: bool,
    training: bool,
) -> bool:
    size = query.size(3)
    if capability < (8, 0) or query.dtype not in _HALF or size != value.size(3) or size > _FLASH_HEAD:
        return False
    if is_causal and query.size(2) != key.size(2):
        return False
    little = (8, 6) <= capability <= (8, 9) or capability in {(12, 0), (12, 1)}
    low, high = _NO_TRAINING
    return not (training and little and (low < size <= high or (size > high and dropout > 0.0)))


def _efficient(capability: tuple[int, int], query: torch.Tensor, value: torch.Tensor) -> bool:
    half = query.dtype in _HALF
    dtypes = {torch.float16, torch.float32} | ({torch.bfloat16} if capability >= (8, 0) else set())
    step = 4 if capability >= (8, 0) else 1
    if capability >= (8, 0) or (capability >= (7, 0) and half):  # tensor cores read 16 bytes
        step = max(step, 8 if half else 4)
    return query.dtype in dtypes and query.size(3) % step == 0 and value.size(3) % step == 0


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


@contextlib.contextmanager
def eager_attending(device: Device) -> Iterator[None]:
    """Inside, `scaled_dot_product_attention` of fake tensors calls the operator of `device` in eager mode."""
    real, ours = functional.scaled_dot_product_attention, attention_of(device, is_eager=True)

    def attention(*args: Any, **named: Any) -> torch.Tensor:
        query = args[0] if args else named.get("query")
        return ours(*args, **named) if isinstance(query, FakeTensor) else real(*args, **named)

    with patched(functional, "scaled_dot_product_attention", attention):
        yield


def attention_of(device: Device, *, is_eager: bool = False) -> Callable[..., torch.Tensor]:
    """What `scaled_dot_product_attention` does on `device`.

    `is_eager`: the dropout of `math` keeps a mask, as on a GPU; in a graph, its operator is replaced.
    """

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
        tensor: torch.Tensor
        if kernel == "cudnn":
            return aten._scaled_dot_product_cudnn_attention.default(  # type: ignore[no-any-return]
                *tensors, mask, keep, dropout_p, is_causal, False, scale=scale
            )[0]
        if kernel == "flash":
            size = query.size(-1)
            padded = [tensor if size % 8 == 0 else pad(tensor, (0, 8 - size % 8)) for tensor in tensors]
            scale = 1 / math.sqrt(size) if scale is None else scale
            tensor = aten._scaled_dot_product_flash_attention.default(
                *padded, dropout_p, is_causal, False, scale=scale
            )[0]
            return tensor if size % 8 == 0 else tensor[..., :size]
        if kernel == "efficient":
            bias = None if mask is None else _aligned(mask).expand(*query.shape[:3], key.size(2))
            return aten._scaled_dot_product_efficient_attention.default(  # type: ignore[no-any-return]
                *tensors, bias, keep, dropout_p, is_causal, scale=scale
            )[0]
        kept = None
        if is_eager and dropout_p > 0.0:
            kept = query.new_empty((*query.shape[:-1], key.size(-2)), dtype=torch.bool)
        return aten._scaled_dot_product_attention_math.default(  # type: ignore[no-any-return]
            *tensors, mask, dropout_p, is_causal, kept, scale=scale, enable_gqa=enable_gqa
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
