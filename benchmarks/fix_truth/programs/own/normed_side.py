"""A layer with statistics on one side."""
import torch
from torch import nn


# fuselight: Net()(f32[4, 3])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x):
        if x.sum() > 0:
            x = self.norm(x)
        return x * 2


def trained(x):
    torch.manual_seed(0)
    net = Net().train()
    y = net(x)
    return y, net.norm.running_mean, net.norm.num_batches_tracked


def probe_training():
    """mode: training changes the statistics."""
    return trained(torch.arange(12.0).reshape(4, 3))


def probe_skipped():
    """mode: training without the layer."""
    return trained(-torch.arange(12.0).reshape(4, 3))


def probe_eval():
    """size: one row."""
    return Net().eval()(torch.ones(1, 3))
