"""A model with one graph break."""

import torch
from torch import nn


# fuselight: Net()(f32[4, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        y = self.layer(x)
        print("layer")
        return torch.relu(y)
