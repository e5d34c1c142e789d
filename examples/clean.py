"""A model that compiles into one graph, for every batch size: Fuselight has nothing to say about it.

What makes it so: no values are read back into Python, and the size that changes is marked dynamic beforehand.
"""

import torch
import torch.nn.functional as F
from torch import nn


# fuselight: Mixer()(f32[4, 16, 32])
class Mixer(nn.Module):
    """Mixes along tokens, then along channels: (batch, tokens, width) to the same shape."""

    def __init__(self, tokens=16, width=32):
        super().__init__()
        self.along_tokens = nn.Linear(tokens, tokens)
        self.along_width = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        x = x + F.gelu(self.along_tokens(x.transpose(1, 2))).transpose(1, 2)
        x = x + F.gelu(self.along_width(x))
        return self.norm(x)


if __name__ == "__main__":
    model = torch.compile(Mixer())
    for batch in (4, 8, 12):
        x = torch.randn(batch, 16, 32)
        torch._dynamo.mark_dynamic(x, 0)
        print(tuple(model(x).shape))
