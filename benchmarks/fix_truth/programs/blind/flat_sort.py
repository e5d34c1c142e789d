"""A helper sorts all values, of whatever shape, with NumPy."""
import numpy as np
import torch

@torch.compiler.disable
def ranked(values):
    """All values, the smallest first."""
    return torch.from_numpy(np.sort(values.detach().numpy(), axis=None))

# fuselight: spread(f32[6])
@torch.compile
def spread(x):
    order = ranked(x * 2)
    return order[-1] - order[0] + x.mean()

def probe_vector():
    """output"""
    return spread(torch.tensor([3.0, -1.0, 2.0]))

def probe_matrix():
    """size a matrix is flattened"""
    return spread(torch.tensor([[3.0, -1.0], [2.0, 9.0]]))

def probe_helper_matrix():
    """other the helper alone flattens"""
    return ranked(torch.tensor([[3.0, -1.0], [2.0, 9.0]]))

def probe_scalar():
    """size no dimensions"""
    return ranked(torch.tensor(2.0)).shape

def probe_integers():
    """dtype integers"""
    return ranked(torch.tensor([3, 1, 2]))

def probe_gradients():
    """gradients only of the mean"""
    x = torch.tensor([1.0, 5.0], requires_grad=True)
    spread(x).backward()
    return x.grad

def probe_helper_gradients():
    """gradients the helper detaches"""
    return ranked(torch.ones(2, requires_grad=True)).requires_grad

def probe_doc():
    """other the helper keeps its name and text"""
    return [ranked.__name__, ranked.__doc__]

def probe_keyword():
    """other by keyword"""
    return ranked(values=torch.tensor([2.0, 1.0]))

def probe_nan():
    """nonfinite"""
    return spread(torch.tensor([1.0, float("nan")]))

def probe_bfloat():
    """dtype bfloat16 has no array"""
    try:
        return spread(torch.ones(2, dtype=torch.bfloat16))
    except TypeError:
        return "TypeError"
