"""Loops until a tensor is small, with break and continue, and a count of rounds."""
import torch

# fuselight: shrink(f32[3])
@torch.compile
def shrink(x):
    rounds = 0
    for _ in range(4):
        if x.abs().max() < 1:
            break
        x = x / 2
        rounds += 1
    return x, rounds

# fuselight: skipping([f32[3], f32[3], f32[3]])
@torch.compile
def skipping(parts):
    total = torch.zeros(3)
    for part in parts:
        if part.sum() < 0:
            continue
        total = total + part
    return total

# fuselight: kept([f32[3], f32[3]])
@torch.compile
def kept(parts):
    out = []
    for part in parts:
        if part.sum() > 0:
            out.append(part)
    return out

def probe_shrink():
    """values"""
    return [shrink(torch.tensor([v])) for v in (0.5, 3.0, 100.0, -7.0)]

def probe_shrink_nan():
    """nonfinite"""
    return shrink(torch.tensor([float("nan")]))

def probe_skipping():
    """values"""
    return skipping([torch.ones(3), -torch.ones(3)]), skipping([torch.zeros(3)]), skipping([])

def probe_skipping_dtype():
    """dtype others are skipped, too"""
    return skipping([-torch.ones(3).double()]), skipping([torch.ones(3).double()])

def probe_skipping_shape():
    """rank another shape is skipped, too"""
    return skipping([-torch.ones(2, 3)]), skipping([torch.ones(2, 3)])

def probe_skipping_nan():
    """nonfinite NaN is not skipped"""
    return skipping([torch.full((3,), float("nan"))]), skipping([torch.tensor([-1.0, float("inf"), -float("inf")])])

def probe_skipping_skipped_nan():
    """nonfinite a skipped part with infinity"""
    return skipping([torch.tensor([1.0, -float("inf"), 0.0]), torch.ones(3)])

def probe_skipping_grad():
    """gradients of a skipped part"""
    xs = [torch.ones(3, requires_grad=True), (-torch.ones(3)).requires_grad_()]
    skipping(xs).sum().backward()
    return [x.grad for x in xs]

def probe_kept():
    """output how many"""
    return kept([torch.ones(3), -torch.ones(3)])
