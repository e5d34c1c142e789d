"""A module counts its calls to warm up a factor."""
import torch
from torch import nn


class WarmupScale(nn.Module):
    def __init__(self, dim, warmup=5):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.warmup = warmup
        self.calls = 0

    def forward(self, x):
    # warning: [FL102] "`WarmupScale.forward` is no longer compiled: it reached the recompile limit"
        self.calls += 1  # warning: [FL201] "recompiled: self.calls was 0, now 1"
        factor = min(1.0, self.calls / self.warmup)
        return self.linear(x) * factor


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = WarmupScale(8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(self.inner(x))


if __name__ == "__main__":
    net = Net()
    net.inner.compile()
    for _ in range(10):
        net(torch.randn(3, 8))
# run by: make corpora
