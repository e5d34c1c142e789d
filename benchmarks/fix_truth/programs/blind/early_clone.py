"""Returns its own input on one side."""
import torch

# fuselight: maybe(f32[3])
@torch.compile
def maybe(x):
    if x.sum() > 0:
        return x
    return -x

def probe_alias():
    """output is the input itself"""
    x = torch.ones(2)
    y = maybe(x)
    y.add_(1)
    return x, y is x

def probe_nan():
    """nonfinite condition"""
    return maybe(torch.tensor([float("nan"), 1.0]))

def probe_negative_zero():
    """extreme negative zero"""
    return torch.signbit(maybe(torch.tensor([0.0, 0.0])))
