"""A NumPy helper."""
import numpy as np
import torch


@torch.compiler.disable
def ranks(x):
    return torch.from_numpy(np.sort(x.detach().numpy()))


# fuselight: f(f32[5])
@torch.compile
def f(x):
    return ranks(x) * x


def probe_grad():
    """gradients: the helper detaches."""
    x = torch.tensor([3.0, 1.0, 2.0], requires_grad=True)
    y = f(x)
    y.sum().backward()
    return y, x.grad


def probe_flag():
    """gradients: of the helper's result."""
    x = torch.tensor([3.0, 1.0], requires_grad=True)
    return f(x).requires_grad


def probe_double():
    """dtype: float64."""
    return f(torch.tensor([3.0, 1.0], dtype=torch.float64))


def probe_matrix():
    """size: two dimensions are sorted by row."""
    return f(torch.tensor([[3.0, 1.0], [0.0, -1.0]]))
