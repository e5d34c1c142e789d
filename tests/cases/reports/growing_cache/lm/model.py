import torch
from torch import nn

from .attention import Attention


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = Attention(dim, heads)

    def forward(self, x, past=None):
        y, present = self.attention(self.norm(x), past)
        return x + y, present


class LM(nn.Module):
    def __init__(self, vocab=128, dim=32, depth=2, heads=4, context=64):
        super().__init__()
        self.tokens = nn.Embedding(vocab, dim)
        self.register_buffer("positions", torch.randn(context, dim) * 0.02)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))

    def forward(self, ids, cache=None, start=0):
        x = self.tokens(ids) + self.positions[start : start + ids.size(1)]
        # warning: [FL201] "recompiled: ids was a normal tensor, now an inference tensor"
        cache = cache or [None] * len(self.blocks)  # warning: [FL201] "recompiled: cache[0][0].size(2) was 10, now 11"
        presents = []
        for block, past in zip(self.blocks, cache):
            x, present = block(x, past)
            presents.append(present)
        return x @ self.tokens.weight.T, presents
