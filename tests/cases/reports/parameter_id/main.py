"""Parameters are looked up by their id inside the compiled function."""
import torch
from torch import nn


class Scaler(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.ones(4))
        self.b = nn.Parameter(torch.full((4,), 2.0))
        self.scales = {id(self.a): 0.5, id(self.b): 2.0}

    def forward(self, x):
        for p in self.parameters():
            x = x + p * self.scales[id(p)]
        return x


model = torch.compile(Scaler())
for _ in range(2):
    model(torch.randn(3, 4)).sum().backward()
# run by: make corpora
