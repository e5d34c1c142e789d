"""A float argument varies."""
import torch

# fuselight: soften(f32[4], 0.5)
# fuselight: soften(f32[4], 0.7)
# fuselight: soften(f32[4], 0.9)
@torch.compile
def soften(logits, temperature):
    return torch.softmax(logits / temperature, dim=-1)

def probe_half():
    """dtype half keeps half"""
    return soften(torch.tensor([1.0, 2.0], dtype=torch.float16), 0.3)

def probe_float_digits():
    """extreme digits of a float"""
    return soften(torch.tensor([1.0, 2.0], dtype=torch.float64), 1 / 3)

def probe_zero():
    """extreme zero temperature"""
    try:
        return soften(torch.tensor([1.0, 2.0]), 0.0)
    except Exception as e:
        return type(e).__name__

def probe_integer():
    """dtype integer temperature"""
    return soften(torch.tensor([1.0, 2.0]), 2)

def probe_keyword():
    """other keyword call"""
    return soften(logits=torch.tensor([1.0, 2.0]), temperature=0.25)
