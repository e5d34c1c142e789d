"""A count from a tensor is checked against a size and a limit before it is used."""
import torch
from torch import nn

# fuselight: Crop()(f32[2, 8], i64[2] % 4 + 2)
class Crop(nn.Module):
    def __init__(self, limit=6):
        super().__init__()
        self.limit = limit

    def forward(self, x, lengths):
        k = lengths.max().item()
        if k > self.limit:
            k = self.limit
        return x[:, :k] * 2

# fuselight: checked(f32[8], i64[] % 3)
@torch.compile
def checked(x, n):
    k = n.item()
    if k < 0:
        raise IndexError("negative")
    if k >= x.shape[0]:
        return x.sum()
    return x[k] + x[:k].sum()

def probe_crop():
    """values below and above"""
    x = torch.arange(16.0).reshape(2, 8)
    return [Crop()(x, torch.tensor(v)) for v in ([2, 3], [6, 1], [9, 9], [0, 0])]

def probe_crop_limit():
    """option other limits"""
    x = torch.arange(16.0).reshape(2, 8)
    return [Crop(n)(x, torch.tensor([5, 1])) for n in (1, 0, 8, 100)]

def probe_crop_negative():
    """values negative"""
    return Crop()(torch.ones(2, 8), torch.tensor([-2, -3]))

def probe_checked():
    """values"""
    return [checked(torch.arange(4.0), torch.tensor(n)) for n in (0, 3)]

def probe_checked_above():
    """values beyond"""
    return checked(torch.arange(4.0), torch.tensor(4)), checked(torch.zeros(0), torch.tensor(0))

def probe_checked_negative():
    """values negative fail"""
    try:
        return checked(torch.arange(4.0), torch.tensor(-1))
    except Exception:
        return "fails"
