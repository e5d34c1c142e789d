"""One of two layers, or none, by a tensor; the layers have hooks, states or another width."""
import torch
from torch import nn

# fuselight: Router()(f32[2, 3])
class Router(nn.Module):
    def __init__(self, width=3, norm=False):
        super().__init__()
        self.left = nn.Linear(3, 3)
        self.right = nn.Linear(3, width)
        self.norm = nn.BatchNorm1d(3) if norm else nn.Identity()
        for part in (self.left, self.right):
            nn.init.ones_(part.weight)
            nn.init.zeros_(part.bias)

    def forward(self, x):
        if x.mean() > 0:
            y = self.left(self.norm(x))
        else:
            y = self.right(x)
        return y

def probe_usual():
    """output"""
    return Router()(torch.ones(2, 3)), Router()(-torch.ones(2, 3))

def probe_width():
    """size another width"""
    return Router(5)(torch.ones(2, 3)).shape, Router(5)(-torch.ones(2, 3)).shape

def probe_hooks():
    """hooks of the side that is taken"""
    net, seen = Router(), []
    net.left.register_forward_hook(lambda *_: seen.append("left"))
    net.right.register_forward_hook(lambda *_: seen.append("right"))
    net(torch.ones(2, 3))
    return seen

def probe_norm():
    """state of statistics"""
    net = Router(norm=True)
    net(-torch.ones(2, 3))
    return net.norm.running_mean, net.norm.num_batches_tracked

def probe_grads():
    """gradients of the other side"""
    net = Router()
    net(torch.ones(2, 3)).sum().backward()
    return net.left.weight.grad, net.right.weight.grad

def probe_eval():
    """mode evaluation without gradients"""
    with torch.no_grad():
        return Router().eval()(torch.ones(1, 3))

def probe_nan():
    """nonfinite"""
    return Router()(torch.full((1, 3), float("nan")))
