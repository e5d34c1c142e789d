"""The number of distinct values decides the shape."""
import torch

# fuselight: histogram(i64[8] % 5)
@torch.compile
def histogram(x):
    values, counts = torch.unique(x, return_counts=True)
    return values * counts

def probe_empty():
    """empty input"""
    return histogram(torch.tensor([], dtype=torch.int64))

def probe_one():
    """size one"""
    return histogram(torch.tensor([4]))

def probe_float():
    """dtype float with NaN"""
    return histogram(torch.tensor([1.0, float("nan"), float("nan")]))
