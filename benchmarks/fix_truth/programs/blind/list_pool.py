"""Lists of other lengths: their sum starts with another number, and their mean divides by the length."""
import torch

# fuselight: fuse([f32[3], f32[3]])
# fuselight: fuse([f32[3], f32[3], f32[3]])
# fuselight: fuse([f32[3], f32[3], f32[3], f32[3]])
@torch.compile
def fuse(parts):
    return sum(parts) / len(parts)

# fuselight: joined([f32[3], f32[3]])
# fuselight: joined([f32[3], f32[3], f32[3]])
# fuselight: joined([f32[3], f32[3], f32[3], f32[3]])
@torch.compile
def joined(parts):
    return torch.cat(parts, dim=-1)

# fuselight: first([f32[3], f32[3]])
# fuselight: first([f32[3], f32[3], f32[3]])
# fuselight: first([f32[3], f32[3], f32[3], f32[3]])
@torch.compile
def first(parts):
    parts[0].add_(1)
    return sum(parts)

def probe_fuse():
    """output"""
    return fuse([torch.ones(2), torch.zeros(2)]), fuse([torch.ones(2)]), fuse((torch.ones(2), torch.ones(2)))

def probe_fuse_dtype():
    """dtype bytes wrap"""
    return fuse([torch.tensor([100], dtype=torch.int8)] * 2), fuse([torch.tensor([200], dtype=torch.uint8)] * 2)

def probe_fuse_grad():
    """gradients"""
    xs = [torch.ones(2, requires_grad=True) for _ in range(3)]
    fuse(xs).sum().backward()
    return [x.grad for x in xs]

def probe_fuse_cancel():
    """extreme the order of additions"""
    return fuse([torch.tensor([v]) for v in (1e8, 1.0, -1e8, 1.0)])

def probe_joined():
    """output other sizes"""
    try:
        return joined([torch.ones(2, 1), torch.zeros(2, 3)])
    except Exception:
        return "fails"

def probe_joined_same():
    """output the same size"""
    return joined([torch.ones(2, 2), torch.zeros(2, 2)]), joined([torch.ones(2)])

def probe_first():
    """state the first is changed"""
    xs = [torch.zeros(2), torch.ones(2)]
    return first(xs), xs
