"""Layers are dropped at random in training."""
import random

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, dim=16, depth=3, layerdrop=0.5):
        super().__init__()
        self.project = nn.Linear(dim, dim)
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in range(depth))
        self.layerdrop = layerdrop

    def forward(self, x):  # info: [FL101] "`Decoder.forward` is not compiled: torch skipped it"
        x = self.project(x)
        for layer in self.layers:
            if self.training and random.uniform(0, 1) < self.layerdrop:
            # warning: [GB0170] "graph break: a branch depends on a random number"
                continue
            x = x + torch.tanh(layer(x))
        return x


def main():
    random.seed(1)
    model = torch.compile(Decoder())
    for _ in range(3):
        model(torch.randn(4, 16)).sum().backward()
    model.eval()
    with torch.no_grad():
        model(torch.randn(4, 16))


if __name__ == "__main__":
    main()
