"""Python divides by a number of a tensor, takes its root and its exponential."""
import math
import torch

# fuselight: inverted(f32[3])
@torch.compile
def inverted(x):
    n = x.sum().item()
    return x * (1.0 / n)

# fuselight: rooted(f32[3])
@torch.compile
def rooted(x):
    n = x.abs().sum().item()
    return x * math.sqrt(n - 1) + math.log(n)

# fuselight: grown(f32[3])
@torch.compile
def grown(x):
    n = x.max().item()
    return x * math.exp(n) + 10.0**n

# fuselight: shared(i64[3] % 5 + 1)
@torch.compile
def shared(x):
    n = x.min().item()
    return x + 100 // n + 100 % n

def _each(function, *values):
    out = []
    for value in values:
        try:
            out.append(function(torch.tensor(value)))
        except Exception as e:
            out.append(type(e).__name__)
    return out

def probe_inverted():
    """values"""
    return _each(inverted, [2.0, 2.0], [0.5], [-1.0], [1e-40])

def probe_inverted_zero():
    """values zero fails"""
    return _each(inverted, [1.0, -1.0])[0]

def probe_rooted():
    """values"""
    return _each(rooted, [2.0], [1.0])

def probe_rooted_small():
    """values the root of a negative number fails"""
    return _each(rooted, [0.5])[0]

def probe_rooted_zero():
    """values the logarithm of zero fails"""
    return _each(rooted, [0.0])[0]

def probe_grown():
    """values"""
    return _each(grown, [2.0], [-800.0])

def probe_grown_large():
    """extreme overflow fails"""
    return _each(grown, [800.0])[0]

def probe_shared():
    """values"""
    return _each(shared, [3, 4], [-7, 2], [1])

def probe_shared_zero():
    """values zero fails"""
    return _each(shared, [0, 4])[0]
