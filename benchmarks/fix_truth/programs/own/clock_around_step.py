"""a clock at the start and the end."""

import time

import torch


# fuselight: step(f32[4])
@torch.compile
def step(x):
    start = time.perf_counter()
    y = torch.tanh(x) * 2
    print("measured", time.perf_counter() - start >= 0)
    return y


def probe_result():
    """output: values, and what is printed."""
    return step(torch.ones(3)), step(torch.zeros(2, 2))
