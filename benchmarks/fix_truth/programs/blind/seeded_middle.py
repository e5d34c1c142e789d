"""A seed is set at the start, and again after a draw; a flag is changed and put back."""
import torch

# fuselight: start(f32[3])
@torch.compile
def start(x):
    torch.manual_seed(7)
    return x + torch.rand(3)

# fuselight: middle(f32[3])
@torch.compile
def middle(x):
    y = x + torch.rand(3)
    torch.manual_seed(7)
    return y + torch.rand(3)

# fuselight: asked(f32[3], None)
@torch.compile
def asked(x, seed=None):
    if seed is not None:
        torch.manual_seed(seed)
    return x + torch.rand(3)

def probe_start():
    """state of the generator"""
    return start(torch.zeros(3)), torch.rand(1)

def probe_middle():
    """state of the generator"""
    torch.manual_seed(1)
    y = middle(torch.zeros(3))
    return y, torch.rand(1)

def probe_asked():
    """option a seed and none"""
    torch.manual_seed(1)
    return asked(torch.zeros(3)), asked(torch.zeros(3), 4), asked(torch.zeros(3), 0), asked(torch.zeros(3))

def probe_error():
    """state a call that fails"""
    torch.manual_seed(1)
    try:
        start(torch.zeros(2))
    except RuntimeError:
        pass
    return torch.rand(1)
