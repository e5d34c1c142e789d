"""A mask is cached by length, and by a decorator; the compiled code reads the cache."""
import functools
import torch
from torch import nn

CALLS = []

@functools.lru_cache(maxsize=2)
def mask_of(length, causal=True):
    CALLS.append(length)
    mask = torch.ones(length, length)
    return mask.tril() if causal else mask

# fuselight: Masked()(f32[3, 3])
# fuselight: Masked()(f32[4, 4])
# fuselight: Masked()(f32[5, 5])
class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache = {}
        self.longest = 0

    @torch.compile
    def forward(self, x):
        n = x.shape[-1]
        if n not in self.cache:
            self.cache[n] = torch.arange(n) + len(self.cache)
        self.longest = max(self.longest, n)
        return x * mask_of(n) + self.cache[n], self.longest

def probe_lengths():
    """state of the cache"""
    net = Masked()
    out = [net(torch.ones(n, n)) for n in (3, 2, 3, 1)]
    return out, sorted(net.cache), [type(k).__name__ for k in net.cache], net.longest

def probe_types():
    """state types"""
    net = Masked()
    for n in (2, 3, 4):
        net(torch.ones(n, n))
    return type(net.longest).__name__, net.longest, list(net.cache.items())

def probe_shared():
    """output of the cached mask"""
    mask_of.cache_clear()
    net = Masked()
    y, _ = net(torch.ones(2, 2))
    y.add_(5)
    return mask_of(2), net.cache[2]
