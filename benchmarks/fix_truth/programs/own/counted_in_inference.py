"""A counter of a module that is called in inference mode first."""
import torch
from torch import nn


# fuselight: Net()(f32[4])
# fuselight: Net()(f32[4])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        self.steps += 1
        return x * self.steps


def probe_inference():
    """mode: inference mode, then training."""
    net = Net()
    with torch.inference_mode():
        net(torch.ones(2))
    x = torch.ones(2, requires_grad=True)
    net(x).sum().backward()
    return x.grad, int(net.steps)
