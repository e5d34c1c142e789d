"""Rows where a mask holds are updated, and a loop goes over them."""
import torch

# fuselight: bumped(f32[4, 2], bool[4])
@torch.compile
def bumped(x, mask):
    rows = torch.nonzero(mask, as_tuple=True)[0]
    out = x.clone()
    out[rows] += 1
    return out, rows.numel()

# fuselight: walked(f32[5])
@torch.compile
def walked(x):
    total = torch.zeros(())
    for i in (x > 0).nonzero().flatten().tolist():
        total = total * 0.5 + x[i]
    return total

# fuselight: best(f32[5])
@torch.compile
def best(x):
    where = torch.where(x == x.max())[0]
    return where[0], x[where].mean()

def probe_bumped():
    """output"""
    return [bumped(torch.zeros(3, 2), torch.tensor(m)) for m in ([True, False, True], [False] * 3, [True, False, False])]

def probe_bumped_numbers():
    """dtype a mask of numbers"""
    return bumped(torch.zeros(3, 2), torch.tensor([0, 2, 0]))

def probe_bumped_matrix():
    """rank a mask in two dimensions"""
    return bumped(torch.zeros(3, 2), torch.tensor([[True, True], [False, False], [False, True]]))

def probe_walked():
    """output"""
    return [walked(torch.tensor(v)) for v in ([1.0, -1.0, 3.0], [-1.0], [2.0])]

def probe_walked_empty():
    """empty"""
    return walked(torch.zeros(0))

def probe_best():
    """values ties"""
    return best(torch.tensor([1.0, 3.0, 3.0])), best(torch.tensor([1.0]))

def probe_best_nan():
    """nonfinite NaN equals nothing"""
    try:
        return best(torch.tensor([float("nan"), 1.0]))
    except Exception:
        return "fails"

def probe_best_grad():
    """gradients of a tie"""
    x = torch.tensor([1.0, 3.0, 3.0], requires_grad=True)
    best(x)[1].backward()
    return x.grad
