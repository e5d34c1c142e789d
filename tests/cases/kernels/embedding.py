"""Embedding lookups, a normalization without a mean, and a residual, in half precision."""

import torch
from torch import nn


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        # kernel(2.13, 2.14, 2.15): triton_per_fused__to_copy_add_embedding_mean_mul_pow_rsqrt
        # kernel(2.11): triton_red_fused__to_copy_add_embedding_mean_mul_pow_rsqrt
        scale = wide.square().mean(-1, keepdim=True).add(1e-6).rsqrt()
        # kernel(2.13, 2.14, 2.15): triton_per_fused__to_copy_add_embedding_mean_mul_pow_rsqrt
        # kernel(2.11): triton_red_fused__to_copy_add_embedding_mean_mul_pow_rsqrt
        return (wide * scale).to(x.dtype) * self.weight
        # kernel(2.13, 2.14, 2.15): triton_per_fused__to_copy_add_embedding_mean_mul_pow_rsqrt
        # kernel(2.11): triton_red_fused__to_copy_add_embedding_mean_mul_pow_rsqrt


# fuselight: Model()(i64[4, 16] % 100)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(100, 128)
        self.norm = RmsNorm(128)
        self.to(torch.bfloat16)

    def forward(self, ids):
        x = self.tokens(ids)
        # kernel(2.13, 2.14, 2.15): triton_per_fused__to_copy_add_embedding_mean_mul_pow_rsqrt
        # kernel(2.11): triton_red_fused__to_copy_add_embedding_mean_mul_pow_rsqrt
        return x + self.norm(x)
        # kernel(2.13, 2.14, 2.15): triton_per_fused__to_copy_add_embedding_mean_mul_pow_rsqrt
        # kernel(2.11): triton_red_fused__to_copy_add_embedding_mean_mul_pow_rsqrt
