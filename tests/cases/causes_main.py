"""What made torch compile again, in a program's own words: the objects, classes and values that it is written with.

The file's own `__main__` block makes the calls; each function is compiled for itself.
"""

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.project = nn.Linear(width, 2)

    def forward(self, x):
        return self.project(x)  # info: [FL201] "Expect one compile for each such object"


class Counted(nn.Module):
    def __init__(self, index):
        super().__init__()
        self.index = index

    def forward(self, x):
        return x * self.index  # warning: [FL201] "recompiled: self.index was 2, now 3"


class Bank(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(2, 3))

    def forward(self, x):
        return x + self.rows.sum(0)  # warning: [FL201] "recompiled: self.rows.size(0) was 2, now 3"


def shrink(weight, rate):
    weight.mul_(1 - rate)  # warning: [FL201] "recompiled: weight.size(0) was 3, now 4"


def build(width):
    class Tiny(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(width, 1)

        def forward(self, x):
            return self.layer(x)  # warning: [FL201] "the class Tiny of self was created again"

    return Tiny()


class Stages(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(3, 3)

    def forward(self, x):
        return self.encoder(x)
        # warning(2.13, 2.14, 2.15): [FL201] "Freeze parameters, with requires_grad_(False), before the first call"


class Descent:
    def __init__(self, parameters):
        self.moments = {one: torch.zeros_like(one) for one in parameters}

    def update(self, parameter):
        moment = self.moments[parameter]
        moment.mul_(0.9).add_(parameter.grad)  # warning: [FL201] "parameter.grad was freed by `weight.grad = None`"
        parameter.sub_(moment)


def shifted(offset):
    def apply(x):
        return x + offset  # warning: [FL201] "offset was 1, now 2"

    return apply


def window(table, start):
    return table[start : start + 2]  # warning: [FL201] "recompiled: start was 0, now 3"


def warm(x, step):
    return x * min(1.0, step / 100)  # warning: [FL201] "recompiled: step was 1, now 2"


def cached(x, past):
    return x + sum(one.sum() for one in past)  # warning: [FL201] "past[0].size(1) was 4, now 5"


def audited(function):
    def inner(*args, **kwargs):
        return function(*args, **kwargs)

    return inner


@audited
def doubled(x):
    y = x * 2  # warning: [FL201] "x.size(0) was 3, now 4"
    print("doubled")  # warning: [GB0059] "print"
    return y


class Log:
    def __init__(self):
        self.rows = []

    def add(self, x):
        self.rows.append(x.sum().item())
        # warning: [GB0124] ".item()"
        # warning: [FL201] "Keep a fixed number of elements in `self.rows`"
        # warning: [FL201] "the bound method `self.rows.append` was freed"
        # warning(2.11): [GB0007] "graph break: `list.append` is not traced by torch.compile"
        return x + 1


if __name__ == "__main__":
    for width in (3, 4, 5):
        torch.compile(Head(width))(torch.randn(2, width))

    for index in (2, 3, 4):
        torch.compile(Counted(index))(torch.randn(2))

    bank = Bank()
    compiled = torch.compile(bank)
    for rows in (2, 3):
        bank.rows = torch.zeros(rows, 3)
        compiled(torch.randn(3))

    compiled = torch.compile(shrink)
    with torch.no_grad():
        for size in (3, 4, 5):
            compiled(nn.Parameter(torch.randn(size)), torch.tensor(0.1))

    for width in (3, 4, 5):
        torch.compile(build(width))(torch.randn(2, width))

    stages = Stages()
    compiled = torch.compile(stages)
    compiled(torch.randn(2, 3))
    stages.encoder.requires_grad_(False)
    compiled(torch.randn(2, 3))

    weight = nn.Parameter(torch.randn(3))
    descent = Descent([weight])
    compiled = torch.compile(descent.update)
    for _ in range(3):
        weight.grad = None
        weight.square().sum().backward()
        with torch.no_grad():
            compiled(weight)

    compiled = torch.compile(lambda x, step: step(x))
    compiled(torch.randn(3), shifted(1))
    compiled(torch.randn(3), shifted(2))

    compiled = torch.compile(window)
    for start in (0, 3, 4):
        compiled(torch.randn(8, 2), start)

    compiled = torch.compile(warm)
    for step in (1, 2, 3):
        compiled(torch.randn(2), step)

    compiled = torch.compile(cached)
    for length in (4, 5):
        compiled(torch.randn(2), [torch.randn(2, length), torch.randn(2, length)])

    compiled = torch.compile(doubled)
    for rows in (3, 4):
        compiled(torch.randn(rows))

    log = Log()
    compiled = torch.compile(log.add)
    for _ in range(3):
        compiled(torch.randn(2))
