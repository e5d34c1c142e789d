"""A helper of another file is compiled with two models; it draws, counts and sorts with NumPy."""
import torch
from torch import nn

from helpers import CALLS, rank_rows, scatter

# fuselight: Ranker()(f32[2, 4])
class Ranker(nn.Module):
    def forward(self, x):
        return rank_rows(x) + x

# fuselight: Scatter()(f32[2, 4])
class Scatter(nn.Module):
    def forward(self, x):
        return scatter(x.shape[0], 4) * x.sum()


def probe_ranks():
    """state counts calls"""
    CALLS.clear()
    return Ranker()(torch.tensor([[3.0, 1.0, 2.0]])), Ranker()(torch.tensor([[3.0, 1.0]])), list(CALLS)

def probe_ranks_int():
    """dtype integers"""
    return Ranker()(torch.tensor([[3, 1, 2]]))

def probe_ranks_view():
    """output the helper alone"""
    x = torch.tensor([[3.0, 1.0, 2.0]])
    y = rank_rows(x)
    y.add_(1)
    return x, y, rank_rows(x).dtype

def probe_ranks_array():
    """other the helper takes what has detach"""
    return rank_rows(nn.Parameter(torch.tensor([[2.0, 1.0]])))

def probe_scatter():
    """output"""
    return Scatter()(torch.ones(2, 4)), scatter(1, 3), scatter(0, 3).shape

def probe_scatter_grad():
    """gradients"""
    x = torch.ones(2, 4, requires_grad=True)
    Scatter()(x).sum().backward()
    return x.grad
