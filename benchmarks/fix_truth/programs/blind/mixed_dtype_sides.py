"""The sides have other dtypes for integer inputs."""
import torch

# fuselight: half(f32[4])
@torch.compile
def half(x):
    if x.sum() > 0:
        return x / 2
    return x * 2

def probe_integer():
    """dtype integer"""
    return half(torch.tensor([1, 2])), half(torch.tensor([-1, -2]))

def probe_bool():
    """dtype bool"""
    return half(torch.tensor([True]))

def probe_bytes():
    """dtype uint8"""
    return half(torch.tensor([200, 100], dtype=torch.uint8)), half(torch.tensor([0], dtype=torch.uint8))
