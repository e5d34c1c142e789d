"""A forecaster writes to a cache at an index that is a tensor."""
import dataclasses

import torch
from torch import nn


@dataclasses.dataclass
class Cache:
    next_index: torch.Tensor
    key: torch.Tensor


class Layer(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.key = nn.Linear(dim, dim)

    def forward(self, x, cache):
    # info: [FL101] "the rest of `Layer.forward`, from line 24 on, is not compiled: torch cannot resume it after a graph break"
        key = self.key(x)  # info: [FL201] "recompiled: x.size(1) was 6, now 1"
        start = cache.next_index[0]
        end = start + key.size(1)
        cache.key[:, start:end] = key  # warning: [GB0124] "graph break: `.item()` converts a tensor to a Python number"
        cache.next_index += key.size(1)
        return x + cache.key.mean(dim=1, keepdim=True)


if __name__ == "__main__":
    torch.manual_seed(0)
    layer = torch.compile(Layer().eval(), backend="eager")
    cache = Cache(torch.zeros(2, dtype=torch.long), torch.zeros(2, 16, 8))
    with torch.no_grad():
        layer(torch.randn(2, 6, 8), cache)
        for _ in range(4):
            layer(torch.randn(2, 1, 8), cache)
    print(cache.next_index.tolist())
