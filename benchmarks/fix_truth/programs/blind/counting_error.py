"""The exception counts itself, and a caller reads the count."""
import torch

REJECTED = []

class OutOfRange(ValueError):
    def __init__(self, name):
        super().__init__(f"{name} is out of range")
        REJECTED.append(name)

# fuselight: bounded(f32[4])
@torch.compile
def bounded(x):
    if x.abs().max() > 100:
        raise OutOfRange("x")
    return x * 2

def _outcome(x):
    try:
        return bounded(x)
    except Exception:
        return "Error"

def probe_inside():
    """output in range"""
    return [_outcome(torch.tensor([1.0, -3.0])), list(REJECTED)]

def probe_outside():
    """other the count after two rejections"""
    _outcome(torch.tensor([101.0]))
    _outcome(torch.tensor([-300.0, 1.0]))
    return list(REJECTED)

def probe_nan():
    """nonfinite NaN is in range"""
    return _outcome(torch.tensor([float("nan")]))

def probe_infinite():
    """nonfinite infinity is not, and is counted"""
    return [_outcome(torch.tensor([float("-inf")])), len(REJECTED)]

def probe_later():
    """other a rejected call does not prevent the next"""
    return [_outcome(torch.tensor([500.0])), _outcome(torch.tensor([5.0]))]

def probe_gradients():
    """gradients"""
    x = torch.tensor([2.0], requires_grad=True)
    bounded(x).sum().backward()
    return x.grad
