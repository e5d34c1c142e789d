"""A helper fills an array with random numbers, and keeps count."""
import numpy as np
import torch

DRAWN = []

def mask(size, share):
    keep = np.ones(size, dtype=bool)
    chosen = np.random.choice(size, int(size * share), replace=False)
    keep[chosen] = False
    DRAWN.append(len(chosen))
    return torch.from_numpy(keep)

def plain(size, share):
    keep = np.ones(size, dtype=np.float32)
    keep[: int(size * share)] = 0
    return keep

# fuselight: dropped(f32[8], 0.5)
@torch.compile
def dropped(x, share):
    return x * mask(x.shape[0], share)

# fuselight: cut(f32[8], 0.5)
@torch.compile
def cut(x, share):
    return x * torch.from_numpy(plain(x.shape[0], share))

def probe_dropped():
    """state counts draws"""
    DRAWN.clear()
    np.random.seed(1)
    return dropped(torch.ones(8), 0.5), list(DRAWN), float(np.random.rand())

def probe_cut():
    """output"""
    return [cut(torch.ones(4), share) for share in (0.5, 0.0, 1.0, 0.26)]

def probe_cut_type():
    """output of the helper is an array"""
    return type(plain(4, 0.5)).__name__, plain(4, 1).dtype.name

def probe_cut_integer():
    """option an integer share"""
    return cut(torch.ones(4), 1), plain(3, 1).tolist(), plain(np.int64(3), 0).tolist()

def probe_cut_size():
    """size zero and one"""
    return cut(torch.ones(0), 0.5), cut(torch.ones(1), 0.9)

def probe_cut_large():
    """values a share above one"""
    return cut(torch.ones(4), 2.0), cut(torch.ones(4), -0.5)
