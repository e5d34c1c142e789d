"""A gain varies for images; a single number is an image, too."""
import torch

# fuselight: expose(f32[2, 3, 4], 0.5)
# fuselight: expose(f32[2, 3, 4], 0.25)
# fuselight: expose(f32[2, 3, 4], 0.125)
@torch.compile
def expose(image, gain):
    return image * gain + (1 - gain)

def probe_usual():
    """output"""
    return [expose(torch.ones(1, 2, 2), g) for g in (0.1, 0.7, 1.0)]

def probe_scalar():
    """rank no dimensions"""
    return expose(torch.tensor(0.5), 0.1)

def probe_scalar_half():
    """rank no dimensions in half precision"""
    return expose(torch.tensor(0.5).half(), 0.1)

def probe_half():
    """half precision"""
    return expose(torch.tensor([[[0.1, 2.0]]]).half(), 0.3)

def probe_integers():
    """dtype bytes"""
    return expose(torch.tensor([[[200]]], dtype=torch.uint8), 0.5)

def probe_default():
    """dtype another default"""
    torch.set_default_dtype(torch.float64)
    try:
        return expose(torch.ones(1, 1, 2, dtype=torch.float32), 0.1), expose(torch.ones(1, 1, 2, dtype=torch.int64), 0.1)
    finally:
        torch.set_default_dtype(torch.float32)

def probe_numbers():
    """option no tensor at all"""
    return expose(2.0, 0.5), expose(2, 0.5)
