"""One of two layers is used, and an optimizer with weight decay steps both."""

import torch
from torch import nn


# fuselight: Chooser()(f32[2, 4], train=True)
class Chooser(nn.Module):
    def __init__(self):
        super().__init__()
        self.low = nn.Linear(4, 4)
        self.high = nn.Linear(4, 4)

    def forward(self, x):
        if x.mean() > 0:
            y = self.high(x)
        else:
            y = self.low(x)
        return y


def trained(x):
    net = Chooser()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.5)
    net(x).sum().backward()
    grads = [one.grad for one in net.parameters()]
    optimizer.step()
    return grads, list(net.parameters())


def probe_high():
    """gradients: of the layer that is not used."""
    return trained(torch.ones(2, 4))


def probe_low():
    """gradients: of the other layer."""
    return trained(-torch.ones(2, 4))


def probe_eval():
    """mode: evaluation."""
    with torch.no_grad():
        return Chooser().eval()(torch.ones(1, 4))
