"""A helper of NumPy has a number, which may be an integer, and is called with arrays elsewhere."""
import numpy as np
import torch

@torch.compiler.disable
def ranked(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return torch.from_numpy(np.sort(x.detach().numpy(), axis=-1)) * scale

# fuselight: top(f32[2, 4], 2.0)
@torch.compile
def top(x, scale):
    return ranked(x, scale) + x

def probe_usual():
    """output"""
    return top(torch.tensor([[3.0, 1.0]]), 2.0)

def probe_integer_scale():
    """dtype an integer keeps integers"""
    return top(torch.tensor([[3, 1]]), 2), ranked(torch.tensor([3, 1]), 2).dtype

def probe_tensor_scale():
    """other a tensor as scale"""
    return top(torch.tensor([[3.0, 1.0]]), torch.tensor(3.0))

def probe_vector():
    """rank a vector"""
    return top(torch.tensor([3.0, 1.0, 2.0]), 1.0)

def probe_transposed():
    """layout"""
    return ranked(torch.arange(6.0).reshape(2, 3).t()).stride(), top(torch.arange(6.0).reshape(2, 3).t(), 1.0)

def probe_empty():
    """empty"""
    return top(torch.zeros(2, 0), 1.0)

def probe_grad():
    """gradients"""
    x = torch.tensor([[3.0, 1.0]], requires_grad=True)
    y = top(x, 2.0)
    y.sum().backward()
    return x.grad, ranked(x).requires_grad

def probe_keyword():
    """option keyword and default"""
    return ranked(torch.tensor([2.0, 1.0])), ranked(scale=3.0, x=torch.tensor([2.0, 1.0]))

def probe_nan():
    """nonfinite"""
    return top(torch.tensor([[float("nan"), 1.0, float("inf")]]), 1.0)

def probe_bool():
    """dtype bools"""
    return ranked(torch.tensor([True, False]), 2)

def probe_parameter():
    """output type for a parameter"""
    return type(ranked(torch.nn.Parameter(torch.ones(2)))).__name__
