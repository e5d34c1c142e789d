"""A warm-up number of a module grows; inputs are batches, and single numbers elsewhere."""
import torch
from torch import nn

# fuselight: Warm()(f32[2, 3])
# fuselight: Warm()(f32[2, 3])
# fuselight: Warm()(f32[2, 3])
class Warm(nn.Module):
    def __init__(self):
        super().__init__()
        self.amount = 0.125
        self.steps = 0

    def forward(self, x):
        self.amount = self.amount * 1.5
        self.steps += 1
        return x * self.amount + self.steps

def probe_usual():
    """output"""
    net = Warm()
    return [net(torch.ones(1, 2)) for _ in range(3)]

def probe_scalar():
    """rank none"""
    return Warm()(torch.tensor(1.0)), Warm()(torch.tensor(1.0).half()), Warm()(torch.tensor(1, dtype=torch.int32))

def probe_half():
    """half precision"""
    net = Warm().half()
    return [net(torch.tensor([[1.0, 0.1]]).half()) for _ in range(3)]

def probe_shared():
    """state two modules with one child"""
    net = Warm()
    both = nn.Sequential(net, net)
    return both(torch.ones(1, 2)), net.steps, float(net.amount)

def probe_threads():
    """state of a copy"""
    import copy
    a = Warm()
    b = copy.copy(a)
    a(torch.ones(1, 1))
    return b(torch.ones(1, 1)), a(torch.ones(1, 1))

def probe_loaded():
    """state loading an old state"""
    net = Warm()
    net(torch.ones(1, 1))
    other = Warm()
    other.load_state_dict(net.state_dict())
    return other(torch.ones(1, 1)), list(net.state_dict()), len(list(net.buffers()))

def probe_meta():
    """mode on the meta device, then on the CPU"""
    with torch.device("meta"):
        net = Warm()
    net.to_empty(device="cpu")
    return net(torch.ones(1, 2))
