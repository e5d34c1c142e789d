"""A compiled function gets a network, and each network has another offset."""
import torch
from torch import nn


class Wave(nn.Module):
    def __init__(self, offset):
        super().__init__()
        self.offset = offset
        self.mix = nn.Linear(6, 6)

    def forward(self, x):
        return (self.mix(x).sin() + self.offset).sin()


@torch.compile(fullgraph=True, dynamic=True, backend="aot_eager")
def energy(net, x):
    return net(x).sum()


def compute(net, x):
    value = energy(net, x)
    value.backward()
    return value.detach()


if __name__ == "__main__":
    torch.manual_seed(0)
    x = torch.rand(4, 6, requires_grad=True)
    for offset in (0.5, 1.5, 2.5, 3.5):
        compute(Wave(offset), x)
    print(x.grad.shape)
# run by: make corpora
