"""A number of a tensor is used in place, as a value to fill, and as a bound."""
import torch

# fuselight: scaled(f32[3])
@torch.compile
def scaled(x):
    n = x.max().item()
    x /= n
    x += n
    return x * 1

# fuselight: filled(f32[4])
@torch.compile
def filled(x):
    n = x.mean().item()
    y = torch.where(x > n, x, n)
    y[0] = n
    return y.clamp(max=n) + torch.full_like(x, n), x.masked_fill(x < n, n)

# fuselight: products(i32[4])
@torch.compile
def products(x):
    n = x.max().item()
    return x * n, x - n, x.float() / n, x // (n if n else 1)

def probe_scaled():
    """state of the argument"""
    x = torch.tensor([1.0, 4.0])
    return scaled(x), x

def probe_scaled_half():
    """half precision"""
    return scaled(torch.tensor([0.1, 0.3]).half())

def probe_scaled_int():
    """dtype integers fail"""
    try:
        return scaled(torch.tensor([1, 4]))
    except RuntimeError:
        return "fails"

def probe_scaled_scalar():
    """rank none"""
    return scaled(torch.tensor(4.0)), scaled(torch.tensor(4.0).half())

def probe_filled():
    """output"""
    return filled(torch.tensor([1.0, 4.0, 2.0]))

def probe_filled_nan():
    """nonfinite"""
    return filled(torch.tensor([1.0, float("nan")]))

def probe_filled_grad():
    """gradients"""
    x = torch.tensor([1.0, 4.0, 2.0], requires_grad=True)
    a, b = filled(x)
    (a + b).sum().backward()
    return x.grad

def probe_products():
    """extreme integers wrap"""
    return products(torch.tensor([2**30, 3], dtype=torch.int32)), products(torch.tensor([100, 3], dtype=torch.int8))

def probe_products_bytes():
    """dtype bytes without a sign"""
    return products(torch.tensor([200, 3], dtype=torch.uint8))

def probe_products_zero():
    """values zeros"""
    return products(torch.tensor([0, -3], dtype=torch.int32))
