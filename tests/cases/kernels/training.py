"""Forward and backward of a small network: backward kernels are on the forward lines that caused them."""

import torch
from torch import nn
from torch.nn import functional as F


# fuselight: Mlp()(f32[32, 64], train=True)
class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 128)
        self.second = nn.Linear(128, 16)

    def forward(self, x):
        h = self.first(x)
        # backward: extern_kernels.mm
        # backward(2.13, 2.14, 2.15): triton_per_fused_silu_backward_sum
        # backward(2.11): triton_per_fused_silu_silu_backward_sum
        # kernel: extern_kernels.addmm
        # saves: float32[32, 128]
        h = F.silu(h)
        # backward(2.13, 2.14, 2.15): triton_per_fused_silu_backward_sum
        # backward(2.11): triton_per_fused_silu_silu_backward_sum
        # kernel: triton_poi_fused_silu
        # saves: float32[32, 128]
        # unfused: -1 they share no data: fusing them would save no memory traffic
        return self.second(h)
        # backward: extern_kernels.mm x 2
        # backward: triton_per_fused_sum
        # kernel: extern_kernels.addmm
