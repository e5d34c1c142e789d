"""A function without a finding, in the second of two folders."""

import torch


# fuselight: twice(f32[4])
@torch.compile
def twice(x):
    return torch.relu(x) * 2
