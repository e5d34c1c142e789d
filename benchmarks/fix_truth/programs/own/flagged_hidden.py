"""Requires a gradient of an intermediate tensor."""
import torch
from torch import nn


# fuselight: Net()(f32[2, 4], train=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, x):
        h = x * 2
        if not h.requires_grad:
            h.requires_grad = True
        return self.head(h)


def probe_training():
    """gradients: of the parameters."""
    torch.manual_seed(0)
    net = Net()
    net(torch.ones(3, 4)).sum().backward()
    return [one.grad for one in net.parameters()]


def probe_frozen():
    """gradients: with frozen parameters the output still requires them."""
    torch.manual_seed(0)
    net = Net().requires_grad_(False)
    y = net(torch.ones(3, 4))
    return y, y.requires_grad


def probe_no_grad():
    """mode: without gradients."""
    torch.manual_seed(0)
    with torch.no_grad():
        return Net()(torch.ones(1, 4))
