"""A mask selects rows for a perceptron."""
import torch
from torch import nn

# fuselight: Rows()(f32[6, 4], bool[6])
class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.mlp = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))

    def forward(self, x, m):
        y = x * 1
        y[m] = self.mlp(x[m])
        return y

def probe_no_rows():
    """gradients without a selected row"""
    net = Rows()
    net(torch.ones(3, 4, requires_grad=True), torch.zeros(3, dtype=torch.bool)).sum().backward()
    return [p.grad for p in net.parameters()]

def probe_nan_rows():
    """nonfinite rows that are not selected"""
    net = Rows()
    x = torch.ones(2, 4)
    x[1] = float("nan")
    x.requires_grad_()
    net(x, torch.tensor([True, False])).sum().backward()
    return [p.grad for p in net.parameters()], x.grad

def probe_integer_mask():
    """dtype of the mask: indices"""
    return Rows()(torch.ones(3, 4), torch.tensor([0, 2]))

def probe_full_mask():
    """size of a two-dimensional mask raises"""
    try:
        return Rows()(torch.ones(3, 4), torch.ones(3, 4, dtype=torch.bool))
    except Exception as e:
        return type(e).__name__
