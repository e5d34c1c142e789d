"""A computed tensor is asked for gradients, as explainers and forces do."""
import torch
from torch import nn

# fuselight: Probe()(f32[3], no_grad=False)
class Probe(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)

    def forward(self, x):
        h = self.lin(x).detach()
        h.requires_grad = True
        self.kept = h
        return (h * 2).sum(), h.requires_grad

# fuselight: leaf(f32[3], no_grad=False)
@torch.compile
def leaf(x):
    x = x * 2
    return x.detach().requires_grad_()

def probe_probe():
    """gradients of what is kept"""
    net = Probe()
    y, flag = net(torch.ones(3))
    if y.requires_grad:
        y.backward()
    return flag, None if net.kept.grad is None else net.kept.grad, net.lin.weight.grad

def probe_probe_no_grad():
    """mode no gradients"""
    with torch.no_grad():
        return Probe()(torch.ones(3))[1]

def probe_leaf():
    """output flags"""
    y = leaf(torch.ones(3))
    return y.requires_grad, y.is_leaf

def probe_leaf_int():
    """dtype integers fail"""
    try:
        return leaf(torch.tensor([1, 2]))
    except RuntimeError:
        return "fails"

def probe_leaf_grad():
    """gradients"""
    x = torch.ones(3, requires_grad=True)
    y = leaf(x)
    y.sum().backward()
    return x.grad, y.grad
