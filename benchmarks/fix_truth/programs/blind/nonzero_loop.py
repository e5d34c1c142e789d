"""Experts run on the rows that chose them."""
import torch
from torch import nn

# fuselight: Sparse()(f32[6, 4])
class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        choice = x[:, :3].argmax(1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = (choice == i).nonzero().squeeze(-1)
            out[rows] = expert(x[rows])
        return out

def probe_one_expert():
    """gradients if only one expert is used"""
    m = Sparse()
    x = torch.zeros(2, 4)
    x[:, 1] = 1
    m(x).sum().backward()
    return [p.grad for p in m.parameters()]

def probe_single_row():
    """size one row"""
    return Sparse()(torch.ones(1, 4))

def probe_half():
    """dtype half module"""
    return Sparse().half()(torch.ones(2, 4, dtype=torch.float16)).dtype
