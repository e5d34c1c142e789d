# pytorch/pytorch#133925: an Enum chooses the branch of a module
from enum import Enum, auto

import torch
from torch import nn


class Pooling(Enum):
    MEAN = auto()
    MAX = auto()
    LAST = auto()
    CLS = auto()


class Encoder(nn.Module):
    def __init__(self, pooling, dim=16):
        super().__init__()
        self.pooling = pooling
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        x = torch.tanh(self.proj(x))
        if self.pooling is Pooling.MEAN:
        # warning: [FL201] "recompiled: self.pooling was Pooling.MEAN, now Pooling.MAX"
            return x.mean(1)
        elif self.pooling is Pooling.MAX:
            return x.amax(1)
        elif self.pooling == Pooling.LAST:
            return x[:, -1]
        return x[:, 0]


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.randn(2, 5, 16)
    encoder = torch.compile(Encoder(Pooling.MEAN))
    for pooling in Pooling:
        encoder.pooling = pooling
        print(pooling.name, encoder(x).shape)
# run by: make corpora
