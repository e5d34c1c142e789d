"""dropout on one side."""

import torch
from torch import nn


# fuselight: Block()(f32[4, 3])
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.eval()

    def forward(self, x):
        return self.drop(x) if x.mean() > 0 else x * 1


def probe_training():
    """mode: random numbers in training."""
    torch.manual_seed(3)
    return Block().train()(torch.ones(4, 3)), torch.rand(1)
