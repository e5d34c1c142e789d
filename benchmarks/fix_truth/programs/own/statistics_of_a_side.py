"""a layer with statistics on one side."""

import torch
from torch import nn


# fuselight: Block()(f32[4, 3])
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.eval()

    def forward(self, x):
        if x.sum() > 0:
            return self.norm(x)
        return x + 0


def probe_training():
    """mode: the statistics move."""
    net = Block().train()
    y = net(torch.arange(6.0).view(2, 3))
    return y, net.norm.running_mean, net.norm.num_batches_tracked


def probe_eval():
    """mode: evaluation."""
    return Block()(torch.ones(2, 3))
