"""A part is compiled in the constructor; the caller passes numbers and dicts that vary."""
import torch
from torch import nn

class Core(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        nn.init.eye_(self.lin.weight)
        nn.init.zeros_(self.lin.bias)

    def forward(self, x, temperature, extra=None):
        y = self.lin(x) / temperature
        if extra is not None:
            y = y + extra
        return y

# fuselight: Model()(f32[2, 3], 0.5)
# fuselight: Model()(f32[2, 3], 0.25)
# fuselight: Model()(f32[2, 3], 0.125)
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.core = torch.compile(Core())

    def forward(self, x, temperature):
        first = self.core(x, temperature)
        return first + self.core(x, temperature * 2, extra=temperature)

def probe_usual():
    """output"""
    net = Model()
    return [net(torch.ones(1, 3), t) for t in (0.5, 0.3, 2.0)]

def probe_integers():
    """option integers and tensors"""
    net = Model()
    return net(torch.ones(1, 3), 2), net(torch.ones(1, 3), torch.tensor(2.0))

def probe_zero():
    """values zero"""
    return Model()(torch.ones(1, 3), 0.0)

def probe_half():
    """half precision"""
    return Model().half()(torch.ones(1, 3).half(), 0.3)

def probe_double():
    """dtype double"""
    return Model().double()(torch.ones(1, 3).double(), 1 / 3)

def probe_names():
    """state names"""
    return list(Model().state_dict())

def probe_vector():
    """rank no batch"""
    return Model()(torch.ones(3), 0.5)

def probe_grad():
    """gradients"""
    x = torch.ones(1, 3, requires_grad=True)
    net = Model()
    net(x, 0.3).sum().backward()
    return x.grad, net.core.lin.weight.grad
