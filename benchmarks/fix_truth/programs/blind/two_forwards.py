"""Two forwards come before one backward; a number of the module grows in between."""
import torch
from torch import nn

# fuselight: Ramp()(f32[2, 3])
# fuselight: Ramp()(f32[2, 3])
# fuselight: Ramp()(f32[2, 3])
class Ramp(nn.Module):
    def __init__(self):
        super().__init__()
        self.level = 1.0

    def forward(self, x):
        self.level += 0.5
        return x * self.level

def probe_two():
    """gradients of two calls together"""
    net, x = Ramp(), torch.ones(1, 2, requires_grad=True)
    (net(x) + net(x)).sum().backward()
    return x.grad

def probe_kept():
    """state results of earlier calls stay"""
    net = Ramp()
    return [net(torch.ones(1, 1)) for _ in range(3)]

def probe_second():
    """second gradients"""
    net, x = Ramp(), torch.ones(1, 2, requires_grad=True)
    y = net(x).pow(2).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    net(x)
    g.sum().backward()
    return x.grad

def probe_scalar():
    """dtype no dimensions"""
    net = Ramp()
    return net(torch.tensor(1.0)), net(torch.tensor(1.0).half()), net(torch.tensor(2))

def probe_half():
    """half precision"""
    net = Ramp()
    return net(torch.ones(1, 2).half()), net(torch.tensor([[1e-4, 3.3]]).bfloat16())

def probe_func():
    """other as a function of its parameters"""
    net = Ramp()
    return torch.func.functional_call(net, {}, (torch.ones(1, 2),)), torch.vmap(net)(torch.ones(2, 1))

def probe_pickled():
    """state a pickled module goes on"""
    import pickle
    net = Ramp()
    net(torch.ones(1, 1))
    again = pickle.loads(pickle.dumps(net))
    return again(torch.ones(1, 1)), net(torch.ones(1, 1))
