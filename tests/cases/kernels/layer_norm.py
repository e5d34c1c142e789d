"""A normalization, a library's multiplication, and what is fused after it."""

import torch
from torch import nn
from torch.nn import functional as F


# fuselight: Block()(f32[8, 16, 64])
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 256)

    def forward(self, x):
        h = self.norm(x)  # kernel: triton_per_fused_native_layer_norm
        h = self.up(h)
        # kernel: extern_kernels.mm
        # kernel(2.15): triton_poi_fused__unsafe_view_addmm_gelu_mul
        # kernel(2.11, 2.13, 2.14): triton_poi_fused_addmm_gelu_mul_view
        return F.gelu(h) * 2
        # kernel(2.15): triton_poi_fused__unsafe_view_addmm_gelu_mul
        # kernel(2.11, 2.13, 2.14): triton_poi_fused_addmm_gelu_mul_view
