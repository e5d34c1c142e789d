"""Small branches: equal sides, a walrus, a chain of comparisons, a string and a count."""
import torch

# fuselight: sign(f32[])
@torch.compile
def sign(t):
    y = t.abs()
    z = -y if t < 0 else y
    return z

# fuselight: ranged(f32[], f32[3])
@torch.compile
def ranged(t, x):
    if 0 < t < 1:
        x = x + t
    return x

# fuselight: negated(f32[3], bool[3])
@torch.compile
def negated(x, m):
    if not m.any():
        x = x.abs()
    return x

# fuselight: boxed(f32[3])
@torch.compile
def boxed(x):
    return {"value": x * 2 if x.sum() > 0 else x * 3, "count": len(x)}

def probe_sign():
    """values of zero and negative zero"""
    return [sign(torch.tensor(v)) for v in (1.0, -1.0, 0.0, -0.0)]

def probe_sign_nan():
    """nonfinite"""
    return sign(torch.tensor(float("nan"))), sign(torch.tensor(-float("inf")))

def probe_sign_one():
    """rank one element"""
    return sign(torch.tensor([-1.0])), sign(torch.tensor([[2.0]]))

def probe_sign_grad():
    """gradients at zero"""
    out = []
    for v in (0.0, -2.0):
        t = torch.tensor(v, requires_grad=True)
        sign(t).backward()
        out.append(t.grad)
    return out

def probe_ranged():
    """values of a chain"""
    return [ranged(torch.tensor(v), torch.zeros(2)) for v in (0.5, 0.0, 1.0, -1.0)]

def probe_ranged_wide():
    """rank one element in two dimensions"""
    return [ranged(torch.tensor([[v]]), torch.zeros(2)).shape for v in (0.5, 2.0)]

def probe_ranged_dtype():
    """dtype a double"""
    return [ranged(torch.tensor([v], dtype=torch.float64), torch.zeros(2)) for v in (0.5, 2.0)]

def probe_negated():
    """values"""
    x = torch.tensor([-1.0, 2.0])
    return negated(x, torch.tensor([False, False])), negated(x, torch.tensor([True, False]))

def probe_negated_none():
    """empty masks"""
    return negated(torch.tensor([-1.0]), torch.zeros(0, dtype=torch.bool))

def probe_boxed():
    """output"""
    return boxed(torch.ones(2)), boxed(-torch.ones(2)), boxed(torch.zeros(0))

def probe_boxed_bool():
    """dtype bools"""
    return boxed(torch.tensor([True])), boxed(torch.tensor([False]))
