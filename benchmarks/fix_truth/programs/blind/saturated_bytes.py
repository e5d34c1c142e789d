"""Bytes are compared with a number beyond their range."""
import torch

# fuselight: rescale(u8[6])
# fuselight: rescale(i64[6] % 500)
@torch.compile
def rescale(pixels):
    if pixels.max().item() > 300:
        pixels = pixels // 2
    return pixels

def probe_bytes():
    """values bytes never exceed the limit"""
    return rescale(torch.tensor([255, 44, 100], dtype=torch.uint8))

def probe_small_bytes():
    """values small bytes"""
    return rescale(torch.tensor([50, 40], dtype=torch.uint8))

def probe_signed():
    """dtype signed bytes"""
    return rescale(torch.tensor([127, -128], dtype=torch.int8))

def probe_long():
    """values long integers"""
    return rescale(torch.tensor([301, -5])), rescale(torch.tensor([300, -5]))

def probe_float():
    """dtype floats"""
    return rescale(torch.tensor([301.5, -5.0])), rescale(torch.tensor([3.5, -5.0]))

def probe_nan():
    """nonfinite NaN"""
    return rescale(torch.tensor([float("nan"), 400.0]))

def probe_alias():
    """output the result is the argument"""
    x = torch.tensor([1, 2])
    rescale(x).add_(1)
    return x
