"""A convolution requires its own layout: the kernels that copy its operands are on its line."""

import torch
from torch import nn


# fuselight: Stem()(f32[2, 16, 32, 32])
class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 32, 3, bias=False)
        self.norm = nn.BatchNorm2d(32)

    def forward(self, x):
        x = self.conv(x)  # kernel: extern_kernels.convolution  # kernel: triton_poi_fused_convolution x 2
        x = self.norm(x)  # kernel: triton_poi_fused__native_batch_norm_legit_no_training_relu
        return x.relu()  # kernel: triton_poi_fused__native_batch_norm_legit_no_training_relu
