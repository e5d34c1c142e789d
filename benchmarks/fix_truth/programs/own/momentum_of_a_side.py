"""Momentum goes on moving a layer that is not used."""
import torch
from torch import nn


# fuselight: Net()(f32[2, 3], train=True)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        if x.sum() > 0:
            return self.a(x)
        return self.b(x)


def probe_momentum():
    """gradients: momentum after a step with the other layer."""
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for sign in (1, -1, -1):
        optimizer.zero_grad(set_to_none=True)
        net(sign * torch.ones(2, 3)).sum().backward()
        optimizer.step()
    return [one.detach() for one in net.parameters()]
