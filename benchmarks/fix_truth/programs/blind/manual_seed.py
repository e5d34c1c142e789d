"""Sets the seed in the middle."""
import torch

# fuselight: sample(f32[4])
@torch.compile
def sample(x):
    y = x + torch.rand(4)
    torch.manual_seed(7)
    return y + torch.rand(4)

def probe_state():
    """state of the generator after the call"""
    torch.manual_seed(1)
    sample(torch.zeros(4))
    return torch.rand(2)

def probe_values():
    """other values"""
    torch.manual_seed(1)
    return sample(torch.zeros(4))
