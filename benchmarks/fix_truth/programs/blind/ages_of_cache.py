"""A cache by id and by shape, a list that grows, and a copy of a tensor."""
import copy
import torch
from torch import nn

# fuselight: Cached()(f32[3])
# fuselight: Cached()(f32[4])
class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.by_shape = {}
        self.by_id = {}
        self.history = []

    def forward(self, x):
        if x.shape not in self.by_shape:
            self.by_shape[x.shape] = torch.arange(x.shape[0])
        self.by_id[id(x)] = len(self.by_id)
        self.history.append(x.sum().item())
        kept = copy.deepcopy(x)
        return x * self.by_shape[x.shape] + self.history[0] - kept

def probe_calls():
    """state"""
    net = Cached()
    xs = [torch.ones(3), torch.ones(4), torch.ones(3) * 2]
    return [net(x) for x in xs], net.history, len(net.by_id), len(net.by_shape)

def probe_types():
    """state kept types"""
    net = Cached()
    net(torch.ones(2, dtype=torch.int64))
    net(torch.ones(2).half())
    return [type(v).__name__ for v in net.history]

def probe_grad():
    """gradients"""
    x = torch.ones(3, requires_grad=True)
    net = Cached()
    net(x).sum().backward()
    return x.grad
