"""Fixes that uncover the next finding: more is compiled, or traced, and no operator is lost."""

import torch
from torch import nn


# fuselight: Stack(3)(f32[4, 8])
class Stack(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(depth)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if x.sum() > 0:
            # fix: [GB0170] where "Use torch.where"
            # = 0 -> 1 graphs, same results, next: GB0059 on progress.py:19
            # -|            if x.sum() > 0:
            # -|                x = x * 2
            # +|            x = torch.where(x.sum() > 0, x * 2, x)
                x = x * 2
        y = x.tanh()
        print("mean", y.mean())
        return y


# fuselight: clipped(f32[4, 8])
def clipped(x):
    for _ in range(2):
        if x.max() > 1:
        # fix: [GB0170] where "Use torch.where"
        # = 0 -> 0 graphs, same results, next: GB0170 on progress.py:29
        # -|        if x.max() > 1:
        # -|            x = x.tanh()
        # +|        x = torch.where(x.max() > 1, x.tanh(), x)
            x = x.tanh()
        y = x.cos()
        if y.min() < 0:
            y = -y
        x = x + y
    return x


# fuselight: whole(f32[4, 8])
@torch.compile(fullgraph=True)
def whole(x):
    if x.sum() > 0:
    # fix: [FL404] where "Use torch.where"
    # = 0 -> 0 graphs, same results, next: FL404 on progress.py:41
    # -|    if x.sum() > 0:
    # -|        x = x * 2
    # +|    x = torch.where(x.sum() > 0, x * 2, x)
        x = x * 2
    y = x.cos()
    print("top", y.max())
    return y


# fuselight: number(f32[4, 8])
def number(x):
    for _ in range(2):
        top = x.max().item()
        # refused: [GB0124] capture_scalar_outputs "Set capture_scalar_outputs"
        # = it causes another finding: GB0170 on progress.py:49: graph break: a branch depends on the
        # = data of a tensor
        #  |from torch import nn
        # +|torch._dynamo.config.capture_scalar_outputs = True
        if top > 1:
            break
        x = x.tanh()
    return x
