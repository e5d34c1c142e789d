"""Causes that prevent the replay of a graph, or a part of it, as a CUDA graph."""

import torch


@torch.library.custom_op("kernel_cases::unsafe", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
def unsafe(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@unsafe.register_fake
def _(x):
    return torch.empty_like(x)


# fuselight: writes(f32[16])
@torch.compile(mode="reduce-overhead")
def writes(x):
    x.add_(1)
    # cudagraph: mutated inputs
    # kernel: triton_poi_fused_add_copy__exp
    # unfused: 0 they share no data: fusing them would save no memory traffic
    return x.exp()  # kernel: triton_poi_fused_add_copy__exp


# fuselight: split(f32[16])
@torch.compile(mode="reduce-overhead")
def split(x):
    y = x.sin()  # kernel: triton_poi_fused_sin_unsafe
    y = unsafe(y)
    # cudagraph: CUDAGraph-unsafe custom ops
    # fallback: kernel_cases.unsafe
    # kernel: triton_poi_fused_sin_unsafe
    return y.cos()  # kernel: triton_poi_fused_cos


# fuselight: replayed(f32[16])
@torch.compile(mode="reduce-overhead")
def replayed(x):
    return x.sin() + 1  # kernel: triton_poi_fused_add_sin
