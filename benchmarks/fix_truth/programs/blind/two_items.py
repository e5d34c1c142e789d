"""Two numbers of tensors of two dtypes are compared as Python numbers."""
import torch

# fuselight: larger(i64[3] % 9, f32[3])
@torch.compile
def larger(a, b):
    if a.max().item() > b.max().item():
        b = b * 2
    return b

# fuselight: equal(f32[], f64[], f32[3])
@torch.compile
def equal(p, q, x):
    if p.item() == q.item():
        x = x + 1
    return x

def probe_large():
    """extreme integers that single precision rounds"""
    b = torch.tensor([16777216.0])
    return [larger(torch.tensor([16777216 + n]), b) for n in (-1, 0, 1, 2)]

def probe_usual():
    """output"""
    return larger(torch.tensor([3]), torch.tensor([2.5])), larger(torch.tensor([2]), torch.tensor([2.5]))

def probe_equal():
    """values decimals"""
    x = torch.zeros(2)
    return [
        equal(torch.tensor(v), torch.tensor(v, dtype=torch.float64), x) for v in (0.1, 0.5)
    ], equal(torch.tensor(0.1), torch.tensor(0.1), x)

def probe_half():
    """dtype half"""
    x = torch.zeros(2)
    return equal(torch.tensor(0.1).half(), torch.tensor(0.1), x), equal(torch.tensor(2049.0), torch.tensor(2048.0).half(), x)

def probe_int_double():
    """extreme long integers and doubles"""
    return equal(torch.tensor(2**53 + 1), torch.tensor(float(2**53), dtype=torch.float64), torch.zeros(1))

def probe_nan():
    """nonfinite"""
    nan = torch.tensor(float("nan"))
    return equal(nan, nan, torch.zeros(1))
