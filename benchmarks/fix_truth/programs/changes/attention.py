import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim=32, heads=1, dropout=0.0, causal=False):
        super().__init__()
        self.dim, self.heads, self.causal = dim, heads, causal
        self.qkv = nn.Linear(dim, 3 * dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) * (d // self.heads) ** -0.5
        if self.causal:
            scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = self.drop(scores.softmax(-1))
        return (weights @ v).transpose(1, 2).reshape(b, t, d)


# fuselight: Attention()(f32[2, 8, 32])
