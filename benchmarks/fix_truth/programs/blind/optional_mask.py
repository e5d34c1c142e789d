"""A mask may be None, a bool or a tensor, as other callers pass."""
import torch
from torch import nn

# fuselight: Mixer()(f32[2, 3], bool[3])
class Mixer(nn.Module):
    def forward(self, x, mask=None):
        if mask is None or mask.all():
            return x
        return x * mask

# fuselight: weigh(f32[3], f32[])
@torch.compile
def weigh(x, weight=1.0):
    if weight > 0.5:
        x = x * weight
    return x

class Caller(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixer = Mixer()

    def forward(self, x):
        return self.mixer(x) + weigh(x) + weigh(x, 0.25)

def probe_none():
    """option none"""
    return Mixer()(torch.ones(2, 3)), Caller()(torch.ones(2))

def probe_masks():
    """output"""
    x = torch.ones(2, 2)
    return Mixer()(x, torch.tensor([True, False])), Mixer()(x, torch.tensor([True, True]))

def probe_numbers():
    """dtype a mask of numbers"""
    x = torch.ones(2, dtype=torch.int64)
    return Mixer()(x, torch.tensor([1.5, 1.0])), Mixer()(x, torch.tensor([1.5, 0.0]))

def probe_wide():
    """rank a mask with more dimensions"""
    return Mixer()(torch.ones(2), torch.ones(3, 2)).shape, Mixer()(torch.ones(2), torch.zeros(3, 2)).shape

def probe_weigh():
    """option a float, an integer, a bool"""
    x = torch.ones(2)
    return [weigh(x, w) for w in (0.75, 1, True, False, torch.tensor(0.75), torch.tensor(0.25))]

def probe_weigh_vector():
    """rank a weight of one element"""
    return weigh(torch.tensor(2.0), torch.tensor([0.75])).shape, weigh(torch.tensor(2.0), torch.tensor([0.25])).shape
