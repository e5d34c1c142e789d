# ruff: noqa: ANN, T201, S110, SIM105 - a user's program, as users write them
"""The recorded program: graph breaks, recompilations, a limit and a specialization."""

import torch
from torch import nn


def helper(x):
    y = x + 1
    print("broken")
    return y * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = 2

    def forward(self, x):
        x = helper(self.linear(x))
        if x.sum() > 0:
            x = x + 1
        for index in range(2):
            print("loop", index)
            x = x * self.scale
        return x


def rescaled(x, scale):
    return x * len(scale)


def fixed(x):
    if x.size(0) == 4:
        return x + 1
    return x


def whole(x):
    print("whole")
    return x + 1


def main():
    torch.manual_seed(0)
    x = torch.ones(4, 4)
    net = Net()
    compiled = torch.compile(net, backend="eager")
    compiled(x)
    net.scale = 3
    compiled(x)
    compiled(torch.ones(7, 4))
    many = torch.compile(rescaled, backend="eager")
    for length in range(1, 11):
        many(x, "a" * length)
    torch.compile(fixed, backend="eager", dynamic=True)(x)
    try:
        torch.compile(whole, backend="eager", fullgraph=True)(x)
    except torch._dynamo.exc.Unsupported:
        pass


main()
