"""A second name of a number, which is then changed."""
import torch

# fuselight: blend(f32[4])
@torch.compile
def blend(x):
    top = x.max().item()
    old = top
    top += 1
    return x * old + x * top

# fuselight: paced(f32[4], 0.5)
# fuselight: paced(f32[4], 0.25)
# fuselight: paced(f32[4], 0.125)
@torch.compile
def paced(x, rate):
    first = rate
    rate *= 2
    return x * first - x * rate

def probe_blend():
    """output"""
    return blend(torch.tensor([1.0, 2.0]))

def probe_blend_int():
    """dtype integers"""
    return blend(torch.tensor([1, 2]))

def probe_paced():
    """output"""
    return [paced(torch.tensor([1.0, 2.0]), r) for r in (0.5, 0.1, 0.0)]

def probe_paced_tensor():
    """option the rate of a caller is changed in place"""
    rate = torch.tensor(0.5)
    return paced(torch.tensor([1.0, 2.0]), rate), rate

def probe_paced_twice():
    """state a float of the caller is as it was"""
    rate = 0.3
    a = paced(torch.tensor([1.0]), rate)
    return a, paced(torch.tensor([1.0]), rate), rate
