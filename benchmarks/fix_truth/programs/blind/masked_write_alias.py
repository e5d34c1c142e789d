"""A masked write goes into a view, or into a tensor that a list holds."""
import torch

# fuselight: marked(f32[6])
@torch.compile
def marked(x):
    y = torch.zeros_like(x)
    kept = [y]
    m = x > 0
    y[m] = x[m] * 2
    return kept[0], y

# fuselight: rooted(f32[6])
@torch.compile
def rooted(x):
    y = torch.zeros_like(x)
    m = x > 0
    y[m] = torch.sqrt(x[m])
    return y

# fuselight: scaled(f32[6], f32[6])
@torch.compile
def scaled(x, z):
    y = torch.zeros_like(x)
    m = x > 0
    y[m] = x[m] * z[m]
    return y

# fuselight: centered(f32[6])
@torch.compile
def centered(x):
    y = x.clone()
    m = x > 0
    y[m] = x[m] - x[m].mean()
    return y

def probe_marked():
    """output aliases"""
    a, b = marked(torch.tensor([1.0, -1.0]))
    return a, b, a.data_ptr() == b.data_ptr()

def probe_rooted():
    """gradients outside of the mask"""
    x = torch.tensor([0.0, -1.0, 4.0], requires_grad=True)
    y = rooted(x)
    y.sum().backward()
    return y, x.grad

def probe_scaled():
    """nonfinite factors outside of the mask"""
    x = torch.tensor([0.0, -1.0, 4.0], requires_grad=True)
    y = scaled(x, torch.tensor([float("inf"), float("nan"), 2.0]))
    y.sum().backward()
    return y, x.grad

def probe_scaled_dtype():
    """dtype another dtype fails"""
    try:
        return scaled(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0], dtype=torch.float64))
    except RuntimeError:
        return "fails"

def probe_scaled_long():
    """size z is longer"""
    try:
        return scaled(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0]))
    except Exception:
        return "fails"

def probe_scaled_one():
    """size z has one row more of dimensions"""
    return scaled(torch.ones(2, 2), torch.ones(2, 2))

def probe_centered():
    """values"""
    return centered(torch.tensor([1.0, -1.0, 3.0])), centered(torch.tensor([-1.0]))
