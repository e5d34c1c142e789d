"""A user-defined Triton kernel between generated kernels."""

import torch
import triton
import triton.language as tl


@triton.jit
def double(source, target, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(source + offsets, mask=offsets < count)
    tl.store(target + offsets, values * 2, mask=offsets < count)


@torch.library.triton_op("kernel_cases::double", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    torch.library.wrap_triton(double)[(x.numel() // 128,)](x, out, x.numel(), BLOCK=128)
    return out


@doubled.register_kernel("cpu")
def _(x):
    return x * 2


# fuselight: around(f32[1024])
def around(x):
    y = x.sin()  # kernel: triton_poi_fused_sin
    y = doubled(y)  # kernel: double  # kernel: triton_poi_fused_sin
    return y.cos()  # kernel: triton_poi_fused_cos


@triton.jit
def double_in_place(values, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(values + offsets, tl.load(values + offsets, mask=offsets < count) * 2, mask=offsets < count)


# fuselight: launched(f32[1024])
def launched(x):
    y = torch.empty_like(x)
    double[(8,)](x, y, x.numel(), BLOCK=128)  # kernel: double
    double_in_place[(8,)](y, y.numel(), BLOCK=128)  # kernel: double_in_place
    return y.cos()  # kernel: triton_poi_fused_cos


@triton.jit
def split(source, first, second, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(source + offsets, mask=offsets < count)
    tl.store(first + offsets, values * 2, mask=offsets < count)
    tl.store(second + offsets, values * 3, mask=offsets < count)


# fuselight: half_used(f32[1024])
def half_used(x):
    first, second = torch.empty_like(x), torch.empty_like(x)
    split[(8,)](x, first, second, x.numel(), BLOCK=128)  # kernel: split
    return first.cos()  # kernel: triton_poi_fused_cos
