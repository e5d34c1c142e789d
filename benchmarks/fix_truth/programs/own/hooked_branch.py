"""hooks of the layer that is not taken."""

import torch
from torch import nn


# fuselight: Pick()(f32[2, 4])
class Pick(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x):
        return self.a(x) if x.sum() > 0 else self.b(x)


def probe_hooks():
    """hooks: only the layer that runs calls its hook."""
    net, seen = Pick(), []
    net.a.register_forward_hook(lambda *_: seen.append("a"))
    net.b.register_forward_hook(lambda *_: seen.append("b"))
    net(torch.ones(1, 4))
    return seen


def probe_optimizer():
    """gradients: weight decay must not move what is not used."""
    net = Pick()
    optimizer = torch.optim.AdamW(net.parameters(), weight_decay=0.5, lr=0.1)
    net(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    return net.b.weight
