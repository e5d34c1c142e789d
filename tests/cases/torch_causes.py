"""Breaks whose cause torch names: the attribute, the object, the exception, the argument."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

SEEN = []


class Refiner(nn.Module):
    def __init__(self):
        super().__init__()
        self.rounds = 0

    def forward(self, x):
        def step(x):
            self.rounds += 1
            # error(2.11): [FL404] "graph break inside a higher-order operator: an object from outside is changed in a function that is captured whole"
            return x.sin()

        return torch.cond(x.sum() > 0, step, lambda x: x.cos(), (x,))
        # error(2.13, 2.14, 2.15): [FL404] "graph break inside a higher-order operator: `rounds` is changed from 0 to 1 in a function that is captured whole"


# fuselight: Net()(f32[4])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.refiner = Refiner()

    def forward(self, x):
        return self.refiner(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.linear = nn.Linear(4, 4)

    def run(self, x):
        self.calls += 1
        # warning(2.11): [GB0067] "graph break: an object from outside is changed in a function that is captured whole"
        return self.linear(x).relu()

    def forward(self, x):
        return checkpoint(self.run, x, use_reentrant=False)
        # warning(2.13, 2.14, 2.15): [GB4413] "graph break: `calls` is changed from 0 to 1 in a function that is captured whole"


BLOCK = Block()


# fuselight: checkpointed(f32[2, 4])
@torch.compile
def checkpointed(x):
    return BLOCK(x)


# fuselight: appends(f32[4])
@torch.compile
def appends(x):
    def step(x):
        SEEN.append(1)
        # error: [FL404] "graph break inside a higher-order operator: an object from outside is changed in a function that is captured whole"
        return x.sin()

    return torch.cond(x.sum() > 0, step, lambda x: x.cos(), (x,))


# fuselight: draws(f32[4], torch.Generator())
@torch.compile
def draws(x, source):
    return x + torch.rand(4, generator=source)
    # warning: [GB0055] "graph break: `source` (a `Generator` object) cannot be part of a graph"


# fuselight: appends_after(f32[4])
@torch.compile(fullgraph=True)
def appends_after(x):
    y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
    SEEN.append(1)
    return y


# fuselight: takes_numbers(f32[4], torch.rand(4, generator=torch.Generator()))
@torch.compile(fullgraph=True)
def takes_numbers(x, drawn):
    return x + drawn


# fuselight: lacks(f32[4])
@torch.compile(fullgraph=True)
def lacks(x):
    return x.frobnicate(3)
    # error(2.13, 2.14, 2.15): [FL404] "graph break under fullgraph=True: an exception is raised here while tracing"
    # error(2.11): [FL401] "AttributeError: 'Tensor' object has no attribute 'frobnicate'"
