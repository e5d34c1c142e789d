"""A model that logs its scales."""
import dataclasses
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclasses.dataclass
class Options:
    width: int = 8
    heads: int = 2
    secret: str = "customer-42"


class Block(nn.Module):
    """A block."""
    def __init__(self, options):
        super().__init__()
        self.options = options
        self.first = nn.Linear(options.width, options.width)
        self.scales = nn.ParameterList([nn.Parameter(torch.ones(1)) for _ in range(3)])
        self.notes: list[str] = []

    def describe(self):
        # what is logged
        return "scales " + format(self.scales) + " of " + self.options.secret

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.gelu(self.first(x))
        for index, scale in enumerate(self.scales):
            y = y * scale + index
        note = self.describe()
        if len(note) > 3:
            y = y + math.sqrt(self.options.heads)
        return y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        options = Options()
        self.blocks = nn.ModuleList([Block(options) for _ in range(2)])
        self.head = nn.Linear(options.width, 3)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x)
        if mask is not None:
            x = x * mask
        return self.head(x)


if __name__ == "__main__":
    net = torch.compile(Net())
    print(net(torch.randn(4, 8)).shape)
