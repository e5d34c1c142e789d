"""Rows that a mask selects."""
import torch
from torch import nn


# fuselight: Net()(f32[4, 3], bool[4], train=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = nn.Linear(3, 3)

    def forward(self, x, m):
        y = x.clone()
        y[m] = self.mlp(x[m])
        return y


def run(mask, x=None):
    torch.manual_seed(0)
    net = Net()
    x = torch.arange(12.0).reshape(4, 3).requires_grad_() if x is None else x
    y = net(x, torch.tensor(mask))
    y.sum().backward()
    return y, x.grad, [one.grad for one in net.parameters()]


def probe_none():
    """gradients: no row is selected."""
    return run([False] * 4)


def probe_some():
    """size: two rows."""
    return run([True, False], torch.ones(2, 3, requires_grad=True))


def probe_nan():
    """nonfinite: NaN outside of the mask."""
    x = torch.ones(2, 3)
    x[1] = float("nan")
    return run([True, False], x.requires_grad_())
