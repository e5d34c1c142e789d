"""Measures its time and keeps it."""
import time
import torch
from torch import nn

# fuselight: Timed()(f32[3])
class Timed(nn.Module):
    def __init__(self):
        super().__init__()
        self.times = []

    def forward(self, x):
        start = time.perf_counter()
        y = x.sin() + 1
        self.times.append(time.perf_counter() - start)
        return y

def probe_times():
    """state of the list"""
    m = Timed()
    m(torch.ones(2))
    m(torch.ones(2))
    return len(m.times), all(t >= 0 for t in m.times)
