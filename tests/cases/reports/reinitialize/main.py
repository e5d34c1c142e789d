"""Weights of a head are drawn again inside the compiled function, with fullgraph=True."""
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(8, 8))

    def forward(self, x):
        noise = torch.empty_like(self.weight)
        nn.init.trunc_normal_(noise, std=0.02)
        # error: [FL404] "graph break under fullgraph=True: a branch depends on the data of a tensor"
        return x @ (self.weight + noise)


if __name__ == "__main__":
    head = torch.compile(Head(), fullgraph=True)
    with torch.no_grad():
        head(torch.randn(2, 8))
# run by: make corpora
