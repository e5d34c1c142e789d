"""A reversible layer seeds its dropout, so that the backward pass can draw the same numbers."""
import sys

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(0.2)
        self.attention_seed = None

    def init_seed(self):
        self.attention_seed = int(torch.seed() % sys.maxsize)
        torch.manual_seed(self.attention_seed)
        # warning: [GB0007] "graph break: `manual_seed` is not traced by torch.compile"

    def forward(self, x):
        self.init_seed()
        return self.dropout(self.linear(x))


if __name__ == "__main__":
    layer = Layer()
    compiled = torch.compile(layer, backend="eager")
    for _ in range(4):
        compiled(torch.randn(3, 8)).sum().backward()
# run by: make corpora
