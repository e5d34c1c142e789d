"""A branch between two layers under autocast."""
import torch
from torch import nn


# fuselight: Net()(f32[2, 4])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        if x.mean() > 0:
            y = self.layer(x)
        else:
            y = x * 2
        return y


def probe_autocast():
    """dtype: one side is bfloat16."""
    torch.manual_seed(0)
    net = Net()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return net(torch.ones(2, 4)), net(-torch.ones(2, 4))


def probe_no_grad():
    """mode: inference."""
    torch.manual_seed(0)
    with torch.no_grad():
        return Net()(torch.ones(1, 4)), Net()(-torch.ones(3, 4))


def probe_flag():
    """gradients: of the side without parameters."""
    return Net()(-torch.ones(3, 4)).requires_grad
