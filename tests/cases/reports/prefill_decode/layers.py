import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    @torch.compile
    def forward(self, x):
        var = x.float().pow(2).mean(dim=-1, keepdim=True)  # info: [FL201] "recompiled: x.size(0) was 7, now 1"
        return (x.float() * torch.rsqrt(var + self.eps)).to(x.dtype) * self.weight


class Rotary(nn.Module):
    def __init__(self, dim, limit=128):
        super().__init__()
        freqs = torch.outer(torch.arange(limit).float(), 1.0 / 10000 ** (torch.arange(0, dim, 2) / dim))
        self.register_buffer("cos", freqs.cos(), persistent=False)
        self.register_buffer("sin", freqs.sin(), persistent=False)

    @torch.compile
    def forward(self, positions, x):
        cos, sin = self.cos[positions], self.sin[positions]
        # hint: [FL201] "same cause as line 13: recompiled: positions.size(0) was 7, now 1"
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)
