"""Masked writes from a number, a broadcast value and a module, in several dtypes and dimensions."""
import torch
import torch.nn.functional as F

# fuselight: labels(i64[6] % 4, f32[6])
@torch.compile
def labels(ids, scores):
    out = torch.full_like(ids, -100)
    m = scores > 0
    out[m] = ids[m]
    return out

# fuselight: activated(f32[3, 4])
@torch.compile
def activated(x):
    y = torch.zeros_like(x)
    m = x > -0.5
    y[m] = F.elu(x[m]) + 1
    return y

# fuselight: rows(f32[4, 3], bool[4])
@torch.compile
def rows(x, m):
    y = x.clone()
    y[m] = F.softmax(x[m], dim=-1)
    return y

# fuselight: powered(f32[5])
@torch.compile
def powered(x):
    y = torch.ones_like(x)
    m = x != 0
    y[m] = 1 / x[m]
    return y

def probe_labels():
    """output"""
    return labels(torch.tensor([1, 2, 3]), torch.tensor([1.0, -1.0, float("nan")]))

def probe_labels_dtype():
    """dtype others"""
    return labels(torch.tensor([1, 2], dtype=torch.int8), torch.tensor([1, 0])), labels(torch.tensor([1.5, 2.5]), torch.tensor([1.0, 0.0]))

def probe_labels_rows():
    """rank a mask of rows"""
    return labels(torch.tensor([[1, 2], [3, 4]]), torch.tensor([1.0, -1.0]))

def probe_labels_bool():
    """dtype bools cannot hold minus a hundred"""
    return labels(torch.tensor([True, False]), torch.tensor([1.0, -1.0]))

def probe_activated():
    """extreme large numbers"""
    x = torch.tensor([[1.0, -0.6, 1e30, -200.0]], requires_grad=True)
    y = activated(x)
    y.sum().backward()
    return y, x.grad

def probe_activated_int():
    """dtype integers"""
    try:
        return activated(torch.tensor([[1, 2]]))
    except RuntimeError:
        return "fails"

def probe_rows():
    """values"""
    return rows(torch.ones(3, 2), torch.tensor([True, False, True])), rows(torch.ones(2, 2), torch.tensor([False, False]))

def probe_rows_all():
    """rank a mask of all elements"""
    return rows(torch.ones(2, 2), torch.ones(2, 2, dtype=torch.bool)), rows(torch.ones(4), torch.ones(4, dtype=torch.bool))

def probe_powered():
    """gradients of zeros"""
    x = torch.tensor([2.0, 0.0], requires_grad=True)
    y = powered(x)
    y.sum().backward()
    return y, x.grad

def probe_powered_int():
    """dtype integers fail"""
    try:
        return powered(torch.tensor([2, 0]))
    except (RuntimeError, IndexError):
        return "fails"
