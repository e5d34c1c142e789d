"""One compiled norm is called for hidden states, heads and cache, with and without autocast and gradients."""
import torch
from torch import nn


class Float32RMSNorm(nn.Module):
    def __init__(self, dim=8, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    @torch.compile(backend="aot_eager")
    def forward(self, x):  # warning: [FL201] "recompiled: autocast was off, now on"
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return (self.weight * y).to(x.dtype)
        # warning: [FL201] "recompiled: self.weight.size(0) was 16, now 8"


class Attention(nn.Module):
    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.proj = nn.Linear(dim, dim)
        self.norm = Float32RMSNorm(dim)
        self.head_norm = Float32RMSNorm(dim // heads)

    def forward(self, x):
        x = self.proj(self.norm(x))
        return self.head_norm(x.unflatten(-1, (self.heads, -1)))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = Attention()
    model(torch.randn(2, 5, 16)).sum().backward()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        model(torch.randn(2, 5, 16)).sum().backward()
    with torch.no_grad():
        model(torch.randn(2, 5, 16))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            model(torch.randn(2, 5, 16))
# run by: make corpora
