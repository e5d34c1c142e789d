"""A string chooses the reduction."""
import torch

# fuselight: reduce(f32[4], "mean")
# fuselight: reduce(f32[4], "sum")
@torch.compile
def reduce(x, how):
    if how == "mean":
        return x.mean()
    if how == "sum":
        return x.sum()
    raise KeyError(how)

def probe_unknown():
    """other string raises"""
    try:
        return reduce(torch.ones(2), "max")
    except KeyError as e:
        return str(e)
