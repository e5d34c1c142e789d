"""A small GPT-2 with four habits that cost speed under torch.compile. Open it with Fuselight and save.

Each habit is one that works well in eager PyTorch and is easy to miss:

* a print left in the forward pass (a graph break),
* .item() for a statistic, and a branch on it (a graph break: the value is not known while compiling),
* a Python number on the module that changes (a recompilation with each call),
* batches of different lengths (a recompilation, after which the length is dynamic).

The comments that start with `# fuselight:` say how to call the model; nothing else is needed.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    """Causal self-attention over all heads at once."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, dim=2)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a feed-forward network, each with a residual connection."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm_1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm_2 = nn.LayerNorm(width)
        self.feed_forward = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.feed_forward(self.norm_2(x))


# fuselight: GPT2()(i64[2, 32] % 256)
# fuselight: GPT2()(i64[2, 48] % 256)
# fuselight: GPT2()(i64[2, 64] % 256)
class GPT2(nn.Module):
    """Token ids (batch, length) to logits (batch, length, vocabulary)."""

    def __init__(self, vocabulary=256, longest=128, width=64, heads=4, layers=2):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(longest, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.calls = 0

    def forward(self, ids):
        self.calls += 1
        warm_up = min(1.0, self.calls / 10)
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = (self.tokens(ids) + self.positions(positions)) * warm_up
        print("embedded", tuple(x.shape))

        for block in self.blocks:
            x = block(x)

        largest = x.abs().max().item()
        if largest > 1000:
            x = x / largest
        return self.norm(x) @ self.tokens.weight.T


if __name__ == "__main__":
    model = torch.compile(GPT2())
    for length in (32, 48, 64):
        logits = model(torch.randint(256, (2, length)))
        print(tuple(logits.shape))
