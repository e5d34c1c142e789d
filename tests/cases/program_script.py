"""A program without a `__main__` block: its own statements make the calls."""

import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
model.compile()  # warning(2.11, 2.13): [FL101] "`compile()` does not compile this `Sequential`: its class is torch's own"


@torch.compile
def normalized(x):
    return x / x.sum().item()  # warning: [GB0124] "graph break: `.item()` converts a tensor to a Python number"


for size in (2, 3):
    with torch.no_grad():
        model(torch.ones(size, 4))  # warning(2.14, 2.15): [FL201] "args[0].size(0) was 2, now 3"
normalized(torch.ones(2))
