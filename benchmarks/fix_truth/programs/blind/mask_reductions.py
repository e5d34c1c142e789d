"""Reductions of what a mask selects: empty, of integers, with NaN outside, and through a name."""
import torch

# fuselight: loss(f32[6])
@torch.compile
def loss(x):
    return x[x > 0].mean() + x[x < 0].sum() * 2

# fuselight: product(f32[6])
@torch.compile
def product(x):
    return x[x != 0].prod()

# fuselight: valid(f32[6])
@torch.compile
def valid(x):
    return x[~torch.isnan(x)].sum()

# fuselight: weighted(f32[3, 2], f32[3, 2])
@torch.compile
def weighted(x, w):
    m = x > 0
    return (x[m] * w[m]).sum(), x[m].pow(2).mean()

def probe_loss():
    """values none on one side"""
    return [loss(torch.tensor(v)) for v in ([1.0, 2.0, -1.0], [1.0], [-1.0], [0.0])]

def probe_loss_grad():
    """gradients of none"""
    out = []
    for values in ([1.0, -1.0, 0.0], [-1.0, -2.0]):
        x = torch.tensor(values, requires_grad=True)
        loss(x).backward()
        out.append(x.grad)
    return out

def probe_product():
    """dtype integers, bools"""
    return [product(torch.tensor(v)) for v in ([2.0, 0.0, -3.0], [2, 0, 3], [True, False], [0.0])]

def probe_product_grad():
    """gradients of a product with zeros"""
    x = torch.tensor([2.0, 0.0, 3.0], requires_grad=True)
    product(x).backward()
    return x.grad

def probe_valid():
    """nonfinite"""
    nan = float("nan")
    x = torch.tensor([1.0, nan, 2.0], requires_grad=True)
    y = valid(x)
    y.backward()
    return y, x.grad, valid(torch.tensor([nan])), valid(torch.tensor([float("inf"), nan]))

def probe_valid_int():
    """dtype small integers"""
    return valid(torch.tensor([100, 100], dtype=torch.int8)), valid(torch.tensor([True, True]))

def probe_weighted():
    """nonfinite weights outside of the mask"""
    x = torch.tensor([[1.0, -1.0]], requires_grad=True)
    a, b = weighted(x, torch.tensor([[2.0, float("inf")]]))
    (a + b).backward()
    return a, b, x.grad

def probe_weighted_none():
    """values none is selected"""
    return weighted(-torch.ones(2, 2), torch.ones(2, 2))
