import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim=16, residual=False, act=nn.ReLU, eps=0.0, norm_first=False):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.act = act()
        self.residual = residual
        self.eps = eps
        self.norm_first = norm_first

    def norm(self, x):
        return x / (x.abs().mean(-1, keepdim=True) + self.eps + 1.0)

    def forward(self, x):
        y = self.norm(x) if self.norm_first else x
        y = self.act(self.inner(y))
        if self.residual:
            y = y + x
        return y


# fuselight: Block()(f32[4, 16])
