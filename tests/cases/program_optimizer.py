"""Compiled functions that only call: what they call is compiled, so they are no functions without tensor operators."""

import torch
from torch import nn


def train():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1))

    @torch.compile
    def update():
        optimizer.step()  # info: [GB0025] "graph break: torch's optimizers break the graph here by design"

    for _ in range(2):
        model(torch.ones(3, 4)).sum().backward()
        update()
        optimizer.zero_grad()


class Batch:
    def __init__(self):
        self.values = torch.ones(4)

    def doubled(self):
        return self.values * 2


BATCH = Batch()


@torch.compile
def nothing_to_do():  # hint: [FL106] "nothing to compile in `nothing_to_do`: its first call ran no tensor operators"
    return len("nothing")


def helper():
    return doubled_batch(BATCH)


@torch.compile
def doubled_batch(batch):
    return batch.doubled()


@torch.compile
def calls_a_helper():
    return helper()


class Steps(nn.Module):
    def forward(self, x):
        total = float(len(x))
        print("steps")  # warning: [GB0059] "graph break: `print` cannot be traced"
        return total


if __name__ == "__main__":
    train()
    calls_a_helper()
    nothing_to_do()
    torch.compile(Steps())(torch.ones(4))
