"""The time is shown only by calls that do not end early."""
import time

import torch

# fuselight: scored(f32[4])
@torch.compile
def scored(x, limit=0, *, scale=2.0):
    """Scores of x."""
    start = time.perf_counter()
    y = x * scale
    if limit and x.shape[0] > limit:
        return y
    y = y - y.mean()
    print("took", time.perf_counter() - start >= 0)
    return y

def probe_usual():
    """output"""
    return scored(torch.tensor([1.0, 2.0]))

def probe_early():
    """output an early end prints nothing"""
    return scored(torch.tensor([1.0, 2.0, 3.0]), 2)

def probe_late():
    """output below the limit"""
    return scored(torch.tensor([1.0]), limit=2, scale=3.0)

def probe_fails():
    """other a failure prints nothing"""
    try:
        return scored(torch.tensor(1.0), 3)
    except IndexError:
        return "IndexError"

def probe_gradients():
    """gradients"""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    (scored(x) * torch.tensor([1.0, 3.0])).sum().backward()
    return x.grad

def probe_text():
    """other its name and text"""
    return [scored.__name__, scored.__doc__]
