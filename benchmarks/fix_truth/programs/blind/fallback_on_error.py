"""A helper raises on a tensor, and its caller catches that and goes on."""
import torch

caught = []

class Negative(ValueError):
    pass

def _validated(x):
    if (x < 0).any():
        raise Negative("negative value")
    return x + 1

# fuselight: safe_root(f32[4])
@torch.compile
def safe_root(x):
    try:
        return _validated(x)
    except ValueError as error:
        caught.append(str(error))
        return x.abs() * 10

def _run(x):
    caught.clear()
    return [safe_root(x), list(caught)]

def probe_positive():
    """output without an error"""
    return _run(torch.tensor([1.0, 4.0]))

def probe_negative():
    """output of the fallback"""
    return _run(torch.tensor([1.0, -4.0]))

def probe_helper_alone():
    """other the type of the exception and its text"""
    try:
        return _validated(torch.tensor([-1.0]))
    except Negative as error:
        return [type(error).__name__, str(error)]

def probe_nan():
    """nonfinite NaN is not negative"""
    return _run(torch.tensor([float("nan"), 0.0]))

def probe_negative_infinity():
    """nonfinite"""
    return _run(torch.tensor([float("-inf"), 0.0]))

def probe_negative_zero():
    """extreme negative zero is not negative"""
    return _run(torch.tensor([-0.0]))

def probe_gradients():
    """gradients through the fallback"""
    x = torch.tensor([1.0, -4.0], requires_grad=True)
    safe_root(x).sum().backward()
    return x.grad

def probe_empty():
    """empty input"""
    return _run(torch.zeros(0))

def probe_complex():
    """dtype complex cannot be compared"""
    return _run(torch.tensor([1j]))
