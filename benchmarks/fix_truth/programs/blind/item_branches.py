"""Numbers of tensors go through Python's arithmetic."""
import math
import torch

# fuselight: spread(f32[4])
@torch.compile
def spread(x):
    n = x.sum().item()
    return x * round(n, 1) + math.floor(n) - int(n / 2)

# fuselight: wheel(i64[1] % 7, f32[8])
@torch.compile
def wheel(k, x):
    n = k.item()
    return x.roll(n % 3) * (n // 2) + (-n) // 4

def probe_spread():
    """output"""
    return [spread(torch.tensor([a, 0.25])) for a in (0.1, 2.5, -3.7, 100.05)]

def probe_half_even():
    """values round half to even"""
    return [spread(torch.tensor([a])) for a in (0.25, 0.35, -0.25, 0.05)]

def probe_nan():
    """nonfinite NaN fails"""
    out = []
    for v in ("nan", "inf"):
        try:
            out.append(spread(torch.tensor([float(v)])))
        except Exception as e:
            out.append(type(e).__name__)
    return out

def probe_integers():
    """dtype integers"""
    return spread(torch.tensor([3, 4]))

def probe_large():
    """extreme large"""
    return spread(torch.tensor([3e9], dtype=torch.float64)), spread(torch.tensor([-1e10]))

def probe_wheel():
    """values positive and negative"""
    return [wheel(torch.tensor([n]), torch.arange(8.0)) for n in (5, 0, 1, -1, -5, -8)]

def probe_bool():
    """dtype bools are numbers"""
    return wheel(torch.tensor([True]), torch.arange(8.0))

def probe_float():
    """dtype floats are no shifts"""
    try:
        return wheel(torch.tensor([2.0]), torch.arange(8.0))
    except Exception:
        return "fails"
