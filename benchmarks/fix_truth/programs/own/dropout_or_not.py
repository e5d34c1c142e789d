"""Dropout on one side."""
import torch
from torch import nn


# fuselight: Net()(f32[2, 8])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        if x.mean() > 0:
            x = self.drop(x)
        return self.head(x)


def probe_training():
    """mode: the draw."""
    torch.manual_seed(1)
    net = Net().train()
    return net(torch.ones(2, 8)), torch.rand(1)


def probe_other():
    """mode: no draw."""
    torch.manual_seed(1)
    net = Net().train()
    return net(-torch.ones(2, 8)), torch.rand(1)


def probe_eval():
    """mode: evaluation."""
    torch.manual_seed(1)
    return Net().eval()(torch.ones(5, 8))
