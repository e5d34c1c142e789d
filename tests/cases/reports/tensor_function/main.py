"""A container with __torch_function__ is passed to a compiled function."""
import torch


class Ragged:
    def __init__(self, values, offsets):
        self._values = values
        self._offsets = offsets

    def sin(self):
        return torch.sin(self)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.sin:
            return cls(func(args[0]._values), args[0]._offsets)
        return NotImplemented


@torch.compile
def encode(x):
    return x.sin()._values * 2


if __name__ == "__main__":
    offsets = torch.tensor([0, 3, 10])
    for _ in range(3):
        encode(Ragged(torch.randn(10, 4), offsets))
# run by: make corpora
