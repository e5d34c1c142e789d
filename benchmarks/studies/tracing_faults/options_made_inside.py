"""A dataclass that is defined in the forward."""
import dataclasses

import torch


def settings(width):
    @dataclasses.dataclass(order=True)
    class Settings:
        width: int
        scale: float = 2.0

    return Settings(width)


def forward(x, names):
    chosen = settings(len(names))
    y = x.flatten().cumsum(0)
    if chosen.width > 1:
        y = y * chosen.scale
    return y.view_as(x) - x.mean()


if __name__ == "__main__":
    torch.compile(forward)(torch.randn(4, 4), ["a", "b"])
