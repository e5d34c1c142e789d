"""Operators without a generated kernel, and a custom operator."""

import torch


@torch.library.custom_op("kernel_cases::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


# fuselight: decomposed(f32[8, 8])
def decomposed(x):
    q, r = torch.linalg.qr(x)  # fallback: aten.linalg_qr
    return q.relu() + r  # kernel: triton_poi_fused_add_relu


# fuselight: custom(f32[8, 8])
def custom(x):
    y = x.sin()  # kernel: triton_poi_fused_sin_twice
    y = twice(y)  # fallback: kernel_cases.twice  # kernel: triton_poi_fused_sin_twice
    return y.cos()  # kernel: triton_poi_fused_cos


# fuselight: spectrum(f32[16, 64])
def spectrum(x):
    y = torch.fft.rfft(x)  # fallback: aten._fft_r2c
    return torch.view_as_real(y).square().sum(-1)  # kernel: triton_poi_fused_pow_sum
