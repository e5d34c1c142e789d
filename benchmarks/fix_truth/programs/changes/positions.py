import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self, dim=8, limit=128, base=1.0):
        super().__init__()
        self.limit, self.base = limit, base
        self.register_buffer("mask", torch.ones(limit, limit).tril())
        self.register_buffer("steps", torch.arange(limit).float())

    def forward(self, x, offset=0, scale=1.0):
        n = x.shape[-2]
        steps = torch.arange(n, device=x.device).float() + offset
        angles = steps[:, None] * self.base / x.shape[-1]
        y = x * angles.cos() * scale
        return torch.ones(n, n, device=x.device).tril() @ y


# fuselight: Positions()(f32[2, 16, 8])
