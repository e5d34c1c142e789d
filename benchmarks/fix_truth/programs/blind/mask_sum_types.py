"""The sum of selected integers."""
import torch

# fuselight: total(i64[8] % 5, bool[8])
@torch.compile
def total(x, m):
    return x[m].sum()

def probe_bytes():
    """dtype uint8 sums to int64"""
    return total(torch.tensor([200, 100, 3], dtype=torch.uint8), torch.tensor([True, True, False]))

def probe_bool():
    """dtype bool sums to int64"""
    return total(torch.tensor([True, True]), torch.tensor([True, False]))

def probe_int32():
    """extreme int32"""
    return total(torch.tensor([2**31 - 1, 2**31 - 1], dtype=torch.int32), torch.tensor([True, True]))

def probe_index():
    """dtype index instead of a mask"""
    return total(torch.tensor([5, 6, 7]), torch.tensor([2, 2]))

def probe_nan_outside():
    """nonfinite outside of the mask"""
    return total(torch.tensor([float("nan"), 1.0]), torch.tensor([False, True]))
