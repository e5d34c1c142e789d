"""A function with one graph break, in the first of two folders."""

import torch


# fuselight: step(f32[4])
@torch.compile
def step(x):
    print("step")
    return torch.relu(x)
