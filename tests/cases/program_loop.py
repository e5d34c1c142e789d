"""A program that compiles what no name stands for: layers in a loop, an element of a list, what a function returns."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, x):
        return x + self.linear(x).relu()  # warning: [FL201] "recompiled: x.requires_grad was False, now True"


class Head(nn.Module):
    def forward(self, x):
        return x / x.sum().item()  # warning: [GB0124] "graph break: `.item()` converts a tensor to a Python number"


def build(size):
    return nn.ModuleList([Block(size) for _ in range(2)])


if __name__ == "__main__":
    layers = build(4)
    for layer in layers:
        layer.compile()
    heads = [torch.compile(Head())]
    x = torch.ones(2, 4)
    for layer in layers:
        x = layer(x)
    heads[0](x)
