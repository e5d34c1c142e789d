"""Python sorts, picks and adds numbers of tensors."""
import torch

# fuselight: order([f32[3], f32[3]])
@torch.compile
def order(parts):
    best = sorted(parts, key=lambda part: part.sum().item())
    return torch.stack(best)

# fuselight: smallest(f32[3])
@torch.compile
def smallest(x):
    values = x.tolist()
    return min(values), values.index(max(values)), sorted(values)[:2], sum(values)

# fuselight: counted(f32[4])
@torch.compile
def counted(x):
    n = sum(1 for value in x if value > 0)
    total = sum(value.item() for value in x)
    return x * n + total

def probe_order():
    """values"""
    a, b = torch.ones(3), torch.zeros(3)
    return order([a, b]), order([b, a]), order([b, b + 0.5, a])

def probe_order_nan():
    """nonfinite"""
    return order([torch.full((3,), float("nan")), torch.ones(3)])

def probe_smallest():
    """values"""
    return smallest(torch.tensor([2.0, 1.0, 3.0])), smallest(torch.tensor([1, 1]))

def probe_smallest_half():
    """half precision"""
    return smallest(torch.tensor([0.1, 2.0]).half())

def probe_smallest_nan():
    """nonfinite"""
    return str(smallest(torch.tensor([float("nan"), 1.0])))

def probe_smallest_none():
    """empty fails"""
    try:
        return smallest(torch.zeros(0))
    except Exception:
        return "fails"

def probe_counted():
    """values"""
    return [counted(torch.tensor(v)) for v in ([1.0, -1.0], [0.1, 0.2, 0.3], [3])]
