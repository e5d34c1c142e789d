"""A step runs backward inside of the compiled function, on gradients that may exist."""
import torch
from torch import nn

# fuselight: Trainer()(f32[4, 3], no_grad=False)
class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 1)
        nn.init.ones_(self.lin.weight)
        nn.init.zeros_(self.lin.bias)

    def forward(self, x):
        loss = self.lin(x).pow(2).mean()
        loss.backward()
        return loss.detach()

# fuselight: slope(f32[3], no_grad=False)
def slope(x):
    x = x.detach().requires_grad_()
    y = (x ** 3).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return g

def probe_grads():
    """gradients accumulate"""
    net = Trainer()
    out = [net(torch.ones(2, 3)), net.lin.weight.grad.clone()]
    net(torch.ones(2, 3))
    return out, net.lin.weight.grad, net.lin.bias.grad

def probe_frozen():
    """gradients of a frozen weight"""
    net = Trainer()
    net.lin.weight.requires_grad_(False)
    net(torch.ones(2, 3))
    return net.lin.weight.grad, net.lin.bias.grad

def probe_hook():
    """hooks of a parameter"""
    net, seen = Trainer(), []
    net.lin.weight.register_hook(lambda g: seen.append(float(g.sum())))
    net(torch.ones(2, 3))
    return seen

def probe_input():
    """gradients of an input"""
    net, x = Trainer(), torch.ones(2, 3, requires_grad=True)
    net(x)
    return x.grad

def probe_slope():
    """second gradients"""
    g = slope(torch.tensor([1.0, 2.0]))
    return g, g.requires_grad

def probe_no_grad():
    """mode no gradients fails"""
    with torch.no_grad():
        try:
            return Trainer()(torch.ones(2, 3))
        except RuntimeError:
            return "fails"
