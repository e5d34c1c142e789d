"""Random numbers: the seed is drawn once, and the mask is saved for backward."""

import torch
from torch import nn
from torch.nn import functional as F


# fuselight: Net()(f32[64, 64], train=True)
class Net(nn.Module):  # kernel(2.11, 2.13): aten.randint.low_out
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(64))

    def forward(self, x):
        h = x * self.scale
        # backward: triton_per_fused_mul_native_dropout_backward_sum_threshold_backward
        # kernel: triton_poi_fused_mul_native_dropout_relu_threshold_backward
        h = F.dropout(h, 0.1)
        # backward: triton_per_fused_mul_native_dropout_backward_sum_threshold_backward
        # kernel(2.14, 2.15): aten.randint.low_out
        # kernel: triton_poi_fused_mul_native_dropout_relu_threshold_backward
        # saves: bool[64, 64]
        return h.relu()
        # backward: triton_per_fused_mul_native_dropout_backward_sum_threshold_backward
        # kernel: triton_poi_fused_mul_native_dropout_relu_threshold_backward
        # saves: bool[64, 64]
