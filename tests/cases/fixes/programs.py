"""Fixes of what a program compiles by itself: methods of plain objects, functions inside functions."""

import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Linear(4, 3)
        self.step = torch.compile(self._step)

    def _step(self, x):
        y = self.model(x)
        if y.mean() > 0:
        # fix: [GB0170] where "Use torch.where"
        # = 2 -> 1 graphs, same results
        # -|        if y.mean() > 0:
        # -|            y = y * 2
        # -|        else:
        # -|            y = y - 1
        # +|        y = torch.where(y.mean() > 0, y * 2, y - 1)
            y = y * 2
        else:
            y = y - 1
        return y


class Warmup:
    def __init__(self):
        self.trend, self.steps = torch.zeros(3), 0

    @torch.compile
    @torch.no_grad()
    def update(self, x):
        self.trend.add_(x * self.steps)
        # fix: [FL201] dynamic "Compile with dynamic=True"
        # = 1 -> 1 graphs, same results
        # -|    @torch.compile
        # +|    @torch.compile(dynamic=True)
        self.steps += 1


def main():
    warmup = Warmup()
    for _ in range(3):
        warmup.update(torch.ones(3))
    scale = 3

    @torch.compile
    def scaled(x):
        if x.sum() > 0:
        # fix: [GB0170] where "Use torch.where"
        # = 2 -> 1 graphs, same results
        # -|        if x.sum() > 0:
        # -|            x = x * scale
        # -|        else:
        # -|            x = x - scale
        # +|        x = torch.where(x.sum() > 0, x * scale, x - scale)
            x = x * scale
        else:
            x = x - scale
        return x

    trainer = Trainer()
    for size in (4, 5):
        scaled(torch.randn(4))
        trainer.step(torch.randn(size, 4))


if __name__ == "__main__":
    main()
