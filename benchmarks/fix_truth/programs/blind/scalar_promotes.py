"""A number from an integer tensor multiplies integers."""
import torch

# fuselight: stretch(f32[4], f32[4])
@torch.compile
def stretch(x, t):
    s = t.max().item()
    return x * s

def probe_int_x():
    """dtype integer x with float number"""
    return stretch(torch.tensor([1, 2]), torch.tensor([0.5]))

def probe_double_t():
    """dtype float64 number with float32"""
    return stretch(torch.tensor([1.0]), torch.tensor([1 / 3], dtype=torch.float64))

def probe_half_x():
    """dtype half x with float32 number"""
    return stretch(torch.tensor([1.0], dtype=torch.float16), torch.tensor([70000.0]))

def probe_bool_x():
    """dtype bool x"""
    return stretch(torch.tensor([True, False]), torch.tensor([3]))
