"""A class attribute is the switch of all instances."""
import torch
from torch import nn


class Layer(nn.Module):
    scale = 1.0

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * Layer.scale  # warning: [FL201] "recompiled: Layer.scale was 1.0, now 3.0"


if __name__ == "__main__":
    layer = torch.compile(Layer())
    x = torch.ones(2, 4)
    first = layer(x)
    Layer.scale = 3.0
    second = layer(x)
    print(torch.allclose(first * 3, second))
# run by: make corpora
